/* Runs the threads of a block as fibers.
 *
 * In the build with the thread sanitizer, this file is compiled without the sanitizer, which would check the
 * scheduler's own memory. The scheduler tells the sanitizer about fibers and barriers. The sanitizer therefore reports
 * accesses that no barrier orders, although only one fiber runs at a time.
 *
 * Code that runs on fibers must not allocate memory or use std:: templates. The linker might use the kernels'
 * instrumented copies of these templates. */
#include "tests/cuda/shim/runtime.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <vector>

#if defined(__x86_64__)
#define SWITCH_BY_HAND 1 /* because ucontext saves the signal mask with a system call, which is slow */
#else
#include <ucontext.h>
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define ASAN(statement) statement
#else
#define ASAN(statement)
#endif
#ifdef SHIM_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_write_range(void *address, unsigned long bytes); /* no header declares this function */
#define TSAN(statement) statement
#define OF_FIBERS(statement) \
    if (apart) {             \
        statement;           \
    }
#else
#define TSAN(statement)
#define OF_FIBERS(statement)
#endif

/* Marks functions of the scheduler, which a test calls millions of times. The sanitizers should check only the
 * kernels. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

#define MAX_THREADS 1024
#define STACK_BYTES (128 << 10)
#define COPIES 256 /* maximum number of pending asynchronous copies of a thread */
/* Number of sanitizer objects that the barriers of a block or warp use in turn. With a single object, a thread may
 * leave a barrier when other threads have already reached the next barrier. The thread sanitizer would then order the
 * thread after these other threads. */
#define BARRIERS 64
#define LANES 32
/* Number of threads that the thread sanitizer distinguishes in a block. Its time for a barrier grows with this number
 * times the number of threads. */
#define IDENTITIES 64
/* is_apart() uses both constants to choose the blocks whose threads the thread sanitizer distinguishes. */
#define APART 8
#define OFTEN 24

uint3 blockIdx;
dim3 blockDim;

namespace shim
{
thread *current;
char *dynamic_memory;

namespace
{
struct stack {
    char *memory; /* lowest address of the stack */
    size_t bytes;
    void *asan; /* the address sanitizer's data for this stack, set while another fiber runs */
    void *tsan;
#ifdef SWITCH_BY_HAND
    void *pointer;
#else
    ucontext_t context;
#endif
};

enum waiting { WAITS_NOT, WAITS_FOR_BLOCK, WAITS_FOR_WARP, ENDED };

struct copy {
    void *to;
    const void *from; /* source, or NULL for zeros */
    unsigned group;
};

struct fiber {
    thread seen; /* the data that kernels read. It is the first member, because `current` points to it */
    stack own;
    bool begun; /* if false, `own` is not open yet */
    waiting waits;
    int line;
    void *given; /* argument `of_lane` of warp() */
    unsigned n_copies, groups;
};

fiber fibers[MAX_THREADS];
copy copies[MAX_THREADS][COPIES]; /* not in struct fiber, because the scheduler often walks over all fibers */
stack main_stack;
unsigned count, alive, at_barrier, at_warp[MAX_THREADS / LANES], barriers;
fiber *ready[MAX_THREADS]; /* ring buffer of the fibers that can run */
unsigned first_ready, n_ready;
/* True if a block has reached a barrier since the section shared_memory was last filled. Without a barrier, warps
 * cannot exchange values through shared memory. So the section need not be filled again after a block without
 * barriers. */
bool shared_is_used = true;
const kernel_call *running;
uint64_t random_state;
unsigned seed;
dim3 grid_size;
size_t dynamic_bytes;
char barrier_objects[BARRIERS], warp_objects[MAX_THREADS / LANES][BARRIERS];
unsigned warp_barriers[MAX_THREADS / LANES];
#ifdef SHIM_TSAN
char block_begins, block_ends;
/* True if the thread sanitizer distinguishes the threads of the block. Otherwise, all threads count as the thread that
 * runs the grid, and races are not found. */
bool apart = true;
void *identities[IDENTITIES]; /* the sanitizer's fibers */
uint64_t choices;             /* state of the random numbers that choose identities and blocks */
#endif

UNCHECKED unsigned random_below(unsigned n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((random_state >> 33) % n);
}

fiber *self()
{
    return (fiber *)current;
}

#ifdef SWITCH_BY_HAND
extern "C" void shim_switch(void **from, void *to);
asm(".text\n"
    ".globl shim_switch\n"
    ".hidden shim_switch\n"
    ".type shim_switch, @function\n"
    "shim_switch:\n"
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n"
    "mov %rsi, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
    "ret\n"
    ".size shim_switch, . - shim_switch\n");
#endif

/* Switches from one stack to the other. `ends` means that the first stack is not used any more. */
void switch_stack(stack *from, stack *to, bool ends)
{
    ASAN(__sanitizer_start_switch_fiber(ends ? nullptr : &from->asan, to->memory, to->bytes));
    OF_FIBERS(if (from->tsan != to->tsan) __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync));
#ifdef SWITCH_BY_HAND
    shim_switch(&from->pointer, to->pointer);
#else
    swapcontext(&from->context, &to->context);
#endif
    ASAN(__sanitizer_finish_switch_fiber(from->asan, nullptr, nullptr));
    (void)ends;
}

/* Removes a fiber from `ready`. The seed chooses the first fiber, a random fiber, or the last fiber. */
UNCHECKED fiber *next_ready()
{
    if (n_ready == 0)
        die("all threads wait: some threads never reach a barrier or a shuffle that needs them");
    n_ready--;
    if (seed == 0)
        return ready[first_ready++ % MAX_THREADS];
    fiber **last = &ready[(first_ready + n_ready) % MAX_THREADS], **chosen = last;
    if (seed % 2)
        chosen = &ready[(first_ready + random_below(n_ready + 1)) % MAX_THREADS];
    fiber *next = *chosen;
    *chosen = *last;
    return next;
}

UNCHECKED void make_ready(fiber *fiber)
{
    fiber->waits = WAITS_NOT;
    ready[(first_ready + n_ready++) % MAX_THREADS] = fiber;
}

/* Lets the lanes of a warp continue. In lockstep, they run before the other warps until they wait at a barrier. This
 * keeps the warp's stacks in the cache. */
UNCHECKED void release_warp(fiber *lanes)
{
    if (seed == 0) {
        first_ready -= LANES;
        n_ready += LANES;
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        lanes[lane].waits = WAITS_NOT;
        if (seed == 0)
            ready[(first_ready + lane) % MAX_THREADS] = &lanes[lane];
        else
            make_ready(&lanes[lane]);
    }
}

UNCHECKED void release_barrier()
{
    at_barrier = 0;
    int line = 0;
    for (unsigned i = 0; i < count; i++) {
        if (fibers[i].waits != WAITS_FOR_BLOCK)
            continue;
        if (line && line != fibers[i].line)
            die("threads of a block meet at different barriers");
        line = fibers[i].line;
        make_ready(&fibers[i]);
    }
}

void run_threads();

/* Prepares a stack. Stacks begin at different offsets in their pages. Otherwise, data at the same depth would compete
 * for the same set of the cache. */
void open_stack(stack *stack, unsigned number)
{
    const size_t guard = 64 << 10;
    if (!stack->memory) {
        void *memory = mmap(nullptr, guard + STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0)
            die("no memory for a thread's stack");
        stack->memory = (char *)memory + guard;
    }
    stack->bytes = STACK_BYTES;
    stack->asan = nullptr;
    size_t bytes = stack->bytes - number % 64 * 64;
#ifdef SWITCH_BY_HAND
    void **top = (void **)(stack->memory + bytes) - 2; /* aligned as at the entry of a function */
    top[0] = (void *)run_threads;
    stack->pointer = top - 6;
#else
    getcontext(&stack->context);
    stack->context.uc_stack.ss_sp = stack->memory;
    stack->context.uc_stack.ss_size = bytes;
    makecontext(&stack->context, run_threads, 0);
#endif
}

/* Continues with the thread `next`. A thread gets its stack when it first runs. `ends` has the same meaning as in
 * switch_stack(). */
void go_on_with(fiber *next, stack *from, bool ends)
{
    current = &next->seen;
    if (!next->begun)
        open_stack(&next->own, next->seen.number);
    next->begun = true;
    switch_stack(from, &next->own, ends);
}

UNCHECKED void go_on()
{
    fiber *from = self(), *next = next_ready();
    if (next != from)
        go_on_with(next, &from->own, false);
}

/* Returns whether a thread may use the stack of a thread that has ended. The thread sanitizer takes longer for memory
 * that another thread has used. It would also report races between threads that it distinguishes. */
bool stacks_are_shared()
{
    TSAN(return false);
    return true;
}

/* Runs a thread to its end. If the next thread in the order has not begun, it runs on the same stack. Most kernels have
 * no barrier, and all their threads run on one stack, which stays in the cache. */
void run_threads()
{
    ASAN(__sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr));
    for (;;) {
        OF_FIBERS(__tsan_acquire(&block_begins));
        running->run();
        OF_FIBERS(__tsan_release(&block_ends));
        fiber *ended = self();
        ended->waits = ENDED;
        if (ended->n_copies > 0)
            die("a thread ends and does not wait for its copies");
        if (at_warp[ended->seen.number / LANES] > 0)
            die("a thread ends while lanes of its warp wait for it");
        alive--;
        if (alive == 0) {
            current = nullptr;
            switch_stack(&ended->own, &main_stack, true);
            abort();
        }
        if (at_barrier == alive)
            release_barrier(); /* a barrier does not wait for threads that have ended */
        fiber *next = next_ready();
        if (next->begun || !stacks_are_shared()) {
            go_on_with(next, &ended->own, true);
            abort();
        }
        char *memory = next->own.memory;
        next->own.memory = ended->own.memory;
        next->own.bytes = STACK_BYTES;
        ended->own.memory = memory;
        next->begun = true;
        current = &next->seen;
    }
}

void find_main_stack()
{
    static thread_local char *memory_of_thread;
    static thread_local size_t bytes_of_thread;
    pthread_attr_t attributes;
    void *memory;
    if (!memory_of_thread && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &memory, &bytes_of_thread);
        pthread_attr_destroy(&attributes);
        memory_of_thread = (char *)memory;
    }
    main_stack.memory = memory_of_thread;
    main_stack.bytes = bytes_of_thread;
    TSAN(main_stack.tsan = __tsan_get_current_fiber());
    /* The identities are created before the first block. The sanitizer assumes that everything that the creator of a
     * fiber did until then happened before the fiber. */
    TSAN(for (void *&identity : identities) identity = identity ? identity : __tsan_create_fiber(0));
}

/* Fills dynamic shared memory with NaNs, and the section shared_memory if a block has used it. The section is filled in
 * a loop, because the address sanitizer would check a memset. */
UNCHECKED __attribute__((optimize("no-tree-loop-distribute-patterns"))) void forget_shared_memory()
{
    for (char *byte = __start_shared_memory; shared_is_used && byte < __stop_shared_memory; byte++)
        *byte = (char)0xff;
    shared_is_used = false;
    memset(dynamic_memory, 0xff, dynamic_bytes);
}

#ifdef SHIM_TSAN
unsigned choose_below(unsigned n)
{
    choices = choices * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((choices >> 33) % n);
}

/* The thread sanitizer records which threads have waited for each other, which is slow. Therefore threads are
 * distinguished only in some blocks. In the first OFTEN launches of a kernel, these are the first and the last block of
 * a grid. In addition, about one block in APART is chosen at random. */
bool is_apart(unsigned launches, unsigned place, size_t blocks)
{
    return choose_below(APART) == 0 || (launches < OFTEN && (place == 0 || place + 1 == blocks));
}

/* Chooses the identity of each thread for the thread sanitizer. It finds a race of two threads only if their identities
 * differ. Each warp has its own identities. If these are fewer than its lanes, a lane's identity changes with each
 * block. Then a later block shows a race that this block hides. */
void choose_identities()
{
    unsigned warps = (count + LANES - 1) / LANES, of_warp = IDENTITIES / warps < LANES ? IDENTITIES / warps : LANES;
    for (unsigned i = 0; i < count; i++) {
        unsigned lane = i % LANES, own = of_warp < LANES ? choose_below(of_warp) : lane;
        fibers[i].own.tsan = identities[i / LANES * of_warp + own];
    }
}

/* Counts a launch of the kernel. Returns the number of earlier launches. */
unsigned count_launches(const void *kernel)
{
    static std::map<const void *, unsigned> launches;
    return launches[kernel]++;
}
#endif

void run_block(unsigned place)
{
    blockIdx = {place % grid_size.x, place / grid_size.x % grid_size.y, place / grid_size.x / grid_size.y};
    forget_shared_memory();
    memset(at_warp, 0, sizeof at_warp);
    alive = count;
    at_barrier = first_ready = n_ready = 0;
    for (unsigned i = 0; i < count; i++) {
        fibers[i].seen = {{i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y}, i};
        fibers[i].n_copies = fibers[i].groups = 0;
        fibers[i].begun = false;
        make_ready(&fibers[i]);
    }
    OF_FIBERS(choose_identities());
    OF_FIBERS(__tsan_release(&block_begins));
    fiber *first = next_ready();
    go_on_with(first, &main_stack, false);
    OF_FIBERS(__tsan_acquire(&block_ends));
}
} // namespace

UNCHECKED void barrier(int line)
{
    fiber *me = self();
    char *object = &barrier_objects[barriers % BARRIERS];
    OF_FIBERS(__tsan_release(object));
    shared_is_used = true;
    me->waits = WAITS_FOR_BLOCK;
    me->line = line;
    if (++at_barrier == alive) {
        barriers++;
        release_barrier();
    }
    go_on();
    OF_FIBERS(__tsan_acquire(object));
    (void)object;
}

/* All lanes of the warp must call this function from the same line. The function does not order accesses to memory. */
UNCHECKED void warp(void (*work)(void *const *), void *of_lane, int line)
{
    fiber *me = self(), *lanes = &fibers[me->seen.number / LANES * LANES];
    me->waits = WAITS_FOR_WARP;
    me->line = line;
    me->given = of_lane;
    if (++at_warp[me->seen.number / LANES] == LANES) {
        void *given[LANES];
        for (unsigned lane = 0; lane < LANES; lane++) {
            if (lanes[lane].line != line)
                die("lanes of a warp meet at different shuffles");
            given[lane] = lanes[lane].given;
        }
        work(given);
        release_warp(lanes);
        at_warp[me->seen.number / LANES] = 0;
    }
    go_on();
}

static void meet(void *const *)
{
}

void warp_barrier(int line)
{
    unsigned number = self()->seen.number / LANES;
    char *object = &warp_objects[number][warp_barriers[number] % BARRIERS];
    OF_FIBERS(__tsan_release(object));
    if (at_warp[number] + 1 == LANES)
        warp_barriers[number]++;
    warp(meet, nullptr, line);
    OF_FIBERS(__tsan_acquire(object));
    (void)object;
}

struct shuffled {
    uint64_t value, found;
    unsigned source;
};

UNCHECKED static void exchange(void *const *lanes)
{
    for (unsigned lane = 0; lane < LANES; lane++) {
        shuffled *of_lane = (shuffled *)lanes[lane];
        of_lane->found = ((const shuffled *)lanes[of_lane->source])->value;
    }
}

UNCHECKED uint64_t shuffle(unsigned mask, uint64_t value, unsigned source, int line)
{
    shuffled mine = {value, 0, source};
    if (mask != 0xffffffffu || source >= LANES)
        die("some lanes of a warp take no part in a shuffle");
    warp(exchange, &mine, line);
    return mine.found;
}

static void vote(void *const *lanes)
{
    bool some = false;
    for (unsigned lane = 0; lane < LANES; lane++)
        some |= *(const bool *)lanes[lane];
    for (unsigned lane = 0; lane < LANES; lane++)
        *(bool *)lanes[lane] = some;
}

bool any(unsigned mask, bool predicate, int line)
{
    if (mask != 0xffffffffu)
        die("some lanes of a warp take no part in a vote");
    warp(vote, &predicate, line);
    return predicate;
}

/* Before the copy is complete, the destination is undefined. tensor_model.h fills it with NaNs. */
void copy_later(void *to, const void *from, bool zeros)
{
    fiber *me = self();
    if (me->n_copies == COPIES)
        die("a thread has more unfinished copies than the shim has room for");
    copies[me->seen.number][me->n_copies++] = {to, zeros ? nullptr : from, me->groups};
}

void copies_commit()
{
    self()->groups++;
}

void copies_wait(unsigned pending)
{
    fiber *me = self();
    copy *mine = copies[me->seen.number];
    unsigned left = 0;
    for (unsigned i = 0; i < me->n_copies; i++) {
        const copy *landing = &mine[i];
        if (landing->group + pending >= me->groups) {
            mine[left++] = *landing;
            continue;
        }
        if (landing->from)
            memcpy(landing->to, landing->from, 16);
        else
            memset(landing->to, 0, 16);
        TSAN(__tsan_write_range(landing->to, 16));
    }
    me->n_copies = left;
}

/* Runs all blocks of the grid, one after another. */
static void run_grid(const grid &grid, const kernel_call &call)
{
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> lock(one_at_a_time);
    random_state = seed = seed_of_order();
    find_main_stack();
    grid_size = grid.blocks;
    blockDim = grid.threads;
    count = blockDim.x * blockDim.y * blockDim.z;
    running = &call;
    std::vector<unsigned> order(grid_size.x * grid_size.y * grid_size.z);
    for (unsigned i = 0; i < order.size(); i++) {
        unsigned other = seed ? random_below(i + 1) : i;
        order[i] = order[other];
        order[other] = i;
    }
    dynamic_bytes = grid.shared_bytes;
    if (posix_memalign((void **)&dynamic_memory, 128, dynamic_bytes ? dynamic_bytes : 1) != 0)
        die("no memory for a block's shared memory");
    TSAN(unsigned launches = count_launches(grid.kernel));
    for (unsigned place : order) {
        TSAN(apart = is_apart(launches, place, order.size()));
        run_block(place);
    }
    free(dynamic_memory);
}

cudaError_t launch_call(const cudaLaunchConfig_t &configuration, const void *kernel, const kernel_call *call)
{
    std::shared_ptr<const kernel_call> kept(call); /* a graph runs the call several times */
    return launch(configuration, kernel, [kept](const grid &grid) { run_grid(grid, *kept); });
}

/* The variables of all kernels are in one section, so the size for one kernel is unknown. */
size_t static_shared_bytes(const void *)
{
    return 0;
}

void die(const char *what)
{
    fprintf(stderr, "CUDA shim: %s (block %u, %u, %u", what, blockIdx.x, blockIdx.y, blockIdx.z);
    if (current)
        fprintf(stderr, "; thread %u", current->number);
    fprintf(stderr, ")\n");
    abort();
}
} // namespace shim

long long clock64()
{
    static long long cycles;
    return __atomic_add_fetch(&cycles, 1000000, __ATOMIC_RELAXED);
}
