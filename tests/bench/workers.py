"""Long-running programs that each run one model on command (worker.c, peers.py), measured in turns. Other programs on a
machine disturb a measurement at varying times. So times of programs that are measured one after another are not
comparable. Therefore, each round gives every worker a short slice. The order changes from round to round. A ratio is
the median of the ratios within rounds. A worker without a command is stopped (SIGSTOP), so that its threads cannot
spin."""
import ctypes
import os
import select
import signal
import statistics
import subprocess
import time

CORES = len(os.sched_getaffinity(0))

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONDONTWRITEBYTECODE": "1"}

# By default, glibc returns large blocks to the kernel at each free, and the next use of the block causes page faults.
# This costs PyTorch much time. PyTorch's tuning guide recommends another allocator. The settings below have the same
# effect.
TORCH_ENVIRONMENT = ENVIRONMENT | {
    "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20), "THP_MEM_ALLOC_ENABLE": "1",
}
OUR_ENVIRONMENT = {"GOMP_SPINCOUNT": "1000"}  # the daemon's setting for itself (server/main.c)
UNWANTED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "LINFORMERD_THREADS")


def clean_environment(more=()):
    """The measurement excludes variables of the caller's environment that limit threads or choose kernels."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return kept | dict(more)


PR_SET_PDEATHSIG = 1


def die_with_parent():
    """A child process calls this function first. The child then ends when its parent ends, even if the child is stopped
    at that time."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class WorkerFailed(Exception):
    pass


class Worker:
    """A child process and its pipes. The process starts at once. `wait_ready` returns its description, or raises
    WorkerFailed."""

    def __init__(self, name, command, log, environment=()):
        self.name, self.log = name, open(log, "w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=clean_environment(environment), preexec_fn=die_with_parent)
        try:  # if memory runs out, the kernel should end this process
            with open(f"/proc/{self.process.pid}/oom_score_adj", "w") as file:
                file.write("1000")
        except OSError:
            pass
        self.stopped = False

    def tell(self, line):
        self.resume()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # the process has ended, which hear() reports

    def hear(self):
        """The words of the answer without the first word, which reports success."""
        word, _, rest = self.process.stdout.readline().strip().partition(" ")
        if not word:
            raise WorkerFailed(f"it ended; see {self.log.name}")
        if word == "failed":
            raise WorkerFailed(rest)
        return rest

    def ask(self, line):
        self.tell(line)
        answer = self.hear()
        self.stop()
        return answer

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def resume(self):
        if self.stopped:
            self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def close(self):
        self.resume()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Workers:
    """The started workers by name. `failures` contains a sentence for each worker that failed."""

    def __init__(self):
        self.running, self.descriptions, self.failures = {}, {}, {}

    def start(self, name, command, log, environment=()):
        self.descriptions.pop(name, None)
        self.running[name] = Worker(name, command, log, environment)

    def wait_ready(self):
        """Waits for the workers that are not ready yet."""
        for name, worker in list(self.running.items()):
            if name in self.descriptions:
                continue
            try:
                self.descriptions[name] = worker.hear()
                worker.stop()
            except WorkerFailed as failure:
                self.drop(name, failure)

    def drop(self, name, failure):
        self.failures[name] = str(failure)
        self.running.pop(name).close()

    def prepare(self, line):
        """Sends the command to all workers at once, because compilers and converters mostly use one core. Returns the
        workers that are ready."""
        ready = []
        for worker in self.running.values():
            worker.tell(line)
        for name, worker in list(self.running.items()):
            try:
                worker.hear()
                worker.stop()
                ready.append(name)
            except WorkerFailed as failure:
                self.failures[name] = f"{line.rpartition(' ')[0]}: {failure}"
                if worker.process.poll() is not None:
                    self.drop(name, failure)
                else:
                    worker.stop()
        return ready

    def prepare_in_turn(self, line, limit_s, first):
        """Sends the command to one worker after another, because first runs at the same time would slow down each
        other. Workers that are not ready within limit_s are ended. limit_s holds for all workers together. Returns the
        workers that are ready."""
        ready, end = [], time.monotonic() + limit_s
        for name in sorted(self.running, key=lambda name: name != first):
            worker = self.running[name]
            try:
                worker.tell(line)
                if not select.select([worker.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                    worker.process.kill()
                    raise WorkerFailed(f"it was not ready in time: all programs together had {limit_s} s")
                worker.hear()
                worker.stop()
                ready.append(name)
            except WorkerFailed as failure:
                self.drop(name, failure)
        return ready

    def measure(self, names, rounds, slice_s, budget_s):
        """Median milliseconds of each worker in each round: {name: [ms, …]}. After budget_s seconds no round begins,
        except the first three."""
        times = {name: [] for name in names}
        began = time.monotonic()
        for turn in range(rounds):
            if turn >= min(3, rounds) and time.monotonic() - began > budget_s:
                break
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                answer = self.running[name].ask(f"run {slice_s}")
                times[name].append(statistics.median(float(word) for word in answer.split()))
        return times

    def close(self):
        for worker in self.running.values():
            worker.close()
        self.running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def ratio(times, slower, faster):
    """The ratio of the times of `slower` and `faster`: the median of the rounds. NaN if one of them was not measured."""
    pairs = list(zip(times.get(slower, []), times.get(faster, [])))
    return statistics.median(a / b for a, b in pairs) if pairs else float("nan")


def median_ms(times, name):
    return statistics.median(times[name]) if times.get(name) else float("nan")


def fastest(times, names):
    """The name with the smallest median, or None if nothing was measured."""
    return min((name for name in names if times.get(name)), key=lambda name: median_ms(times, name), default=None)
