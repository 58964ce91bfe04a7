/* Vulkan 1.1 and later through the system's loader, opened at run time. Device numbers: discrete GPUs, integrated ones,
 * virtual ones, others, then processors; among equals by their identity (UUID).
 * LOCKSTEP_VULKAN_VALIDATION=1 loads the validation layer. */
#ifndef LOCKSTEP_BACKEND_VULKAN_VULKAN_H
#define LOCKSTEP_BACKEND_VULKAN_VULKAN_H

#include "device/device.h"

extern const ls_backend ls_backend_vulkan;

#endif
