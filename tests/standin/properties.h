/*
 * properties.h - what kind of card the simulated device is: attributes by number, the same for
 * the runtime and the driver.
 *
 * A card of compute capability 9.0. Any thread.
 */
#ifndef STANDIN_PROPERTIES_H
#define STANDIN_PROPERTIES_H

#include <stdint.h>

#define SD_DEVICE_NAME "Simulated Device"

/* The value of an attribute (cudaDeviceAttr and CUdevice_attribute share numbers), or 0 with
 * *known set to 0 where there is no such attribute. */
int sd_attribute(int attribute, int ordinal, int *known);
/* 16 bytes that tell the device from all others. */
void sd_device_uuid(int ordinal, char uuid[16]);
/* "0000:01:00.0" and so on; the buffer has `size` bytes. */
void sd_device_bus_id(int ordinal, char *out, int size);

/* Resident blocks of a kernel per multiprocessor. */
int sd_occupancy(int threads, uint64_t shared);

#endif
