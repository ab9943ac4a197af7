/* The kernels on images: items whose rows are pixels. */
#ifndef ENGINE_CPU_IMAGES_H
#define ENGINE_CPU_IMAGES_H

#include "engine/cpu/operations.h"

cpu_operation cpu_convolve_image;

/* Floats, each thread's. */
int64_t cpu_convolve_image_scratch(const struct products *products, const struct plan *plan,
                                   const struct plan_step *step);

#endif
