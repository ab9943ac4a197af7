/* sanitized: whether the compiler adds a sanitizer to this program. A sanitizer makes a program several times slower.
 * Some test programs therefore use fewer or smaller inputs under a sanitizer, which execute the same lines. */
#ifndef TESTS_SANITIZED_H
#define TESTS_SANITIZED_H

#if defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#define SANITIZER_OF_BUILD "address"
#elif defined __SANITIZE_THREAD__
#define SANITIZED 1
#define SANITIZER_OF_BUILD "thread"
#else
#define SANITIZED 0
#define SANITIZER_OF_BUILD ""
#endif

#endif
