/* A device on Linux: registers by mapping, contiguous memory by u-dma-buf, cache maintenance. C99
 * and C++. Functions that return int return 0, or 1 and leave their reason in device_error. */
#ifndef CERAS_DEVICE_H
#define CERAS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Contiguous memory that CPU and device share; its start is at a page for both. */
typedef struct {
  unsigned char *data; /* where this process sees it */
  uint64_t address;    /* where the device sees it */
  uint64_t size;
  void *context;       /* first argument of the functions, which return 0 when done */
  int (*clean)(void *context, uint64_t offset, uint64_t size);      /* write caches to memory */
  int (*invalidate)(void *context, uint64_t offset, uint64_t size); /* forget what caches hold */
} DeviceMemory;

/* The buffer `name` of the kernel module u-dma-buf, for example udmabuf0. `devices` is /dev and
 * `classes` is /sys/class; a message names a buffer of `wanted` bytes. One for a process. */
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

/* Memory before registers, and registers before memory, for the device too. */
void device_barrier(void);

/* Nanoseconds of a clock that only goes forward. */
uint64_t device_now(void);

/* Keep a reason, which device_error gives; 1. */
int device_fail(const char *format, ...);
const char *device_error(void);
void device_clear_error(void);

#ifdef __cplusplus
}
#endif
#endif
