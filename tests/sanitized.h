/* sanitized: whether this build has a sanitizer, which makes a program several times slower. Some programs then have
 * fewer or smaller inputs, which execute the same lines. */
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
