/* A device on Linux: mapped registers, contiguous memory of u-dma-buf, cache maintenance. C99 and
 * C++. Functions that return int return 0, or 1 and store the reason for device_error. */
#ifndef CERAS_DEVICE_H
#define CERAS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Contiguous shared memory of CPU and device, aligned to pages of both. */
typedef struct {
  unsigned char *data; /* the address in this process */
  uint64_t address;    /* the address of the device */
  uint64_t size;
  void *context;       /* first argument of the functions, which return 0 for success */
  int (*clean)(void *context, uint64_t offset, uint64_t size);      /* write caches to memory */
  int (*invalidate)(void *context, uint64_t offset, uint64_t size); /* discard cached data */
} DeviceMemory;

/* The buffer `name` of the kernel module u-dma-buf, for example udmabuf0. `devices` is /dev and
 * `classes` is /sys/class; a message states the `wanted` bytes. A process has a single buffer. */
int device_open_udmabuf(DeviceMemory *memory, const char *name, const char *devices,
                        const char *classes, uint64_t wanted);
void device_close_udmabuf(DeviceMemory *memory);

typedef struct {
  volatile unsigned char *base;
  size_t bytes;
} DeviceRegisters;

/* Map `bytes` bytes at `address` of `file`, which is /dev/mem or, with address 0, /dev/uio*. */
int device_map_registers(DeviceRegisters *registers, const char *file, uint64_t address,
                         size_t bytes);
void device_unmap_registers(DeviceRegisters *registers);
void device_write(const DeviceRegisters *registers, unsigned offset, uint32_t value);
uint32_t device_read(const DeviceRegisters *registers, unsigned offset);

/* Order accesses to memory and registers, also for the device. */
void device_barrier(void);

/* Return the nanoseconds of a monotonic clock. */
uint64_t device_now(void);

/* Wait until `is_idle` returns 1, for at most `milliseconds`. `interrupt` is a UIO device whose
 * interrupts wake this process, or -1: then the function polls. Return 0, or 1 after the limit, or
 * -1 if the interrupt fails, with the reason for device_error. */
int device_wait(int (*is_idle)(void *context), void *context, int interrupt,
                uint32_t milliseconds);

/* Open the UIO device `path` for device_wait. Return -1 if this fails. */
int device_open_interrupt(const char *path);

/* Store a reason for device_error, and return 1. */
int device_fail(const char *format, ...);
const char *device_error(void);
void device_clear_error(void);

#ifdef __cplusplus
}
#endif
#endif
