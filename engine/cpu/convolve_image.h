/* convolve_image: convolutions of images. */
#ifndef ENGINE_CPU_CONVOLVE_IMAGE_H
#define ENGINE_CPU_CONVOLVE_IMAGE_H

#include "engine/cpu/run.h"

cpu_kernel cpu_convolve_image, cpu_convolve_groups, cpu_convolve_channels;
cpu_scratch cpu_convolve_image_scratch, cpu_convolve_groups_scratch, cpu_convolve_channels_scratch;

#endif
