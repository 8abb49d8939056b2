/* Runs a compiled network on VTA from Linux: one network for a process, from one thread.
 *
 * 1. Get memory: vta_open_udmabuf, or fill in a VtaMemory yourself.
 * 2. vta_open copies constants and instructions into it and takes the registers.
 * 3. vta_run runs the network once, as often as wanted.
 * Functions that return int return 0, or another value and leave their reason in vta_error. */
#ifndef VTA_H
#define VTA_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whose registers: those of VTA's HLS design (Xilinx flow), or those of its Chisel shell. */
typedef enum { VTA_HLS = 0, VTA_CHISEL = 1 } VtaFlow;

/* Memory that CPU and VTA share, of vta_memory_bytes() bytes at least. */
typedef DeviceMemory VtaMemory;

#define VTA_PAGE 4096u

typedef struct {
  VtaFlow flow;
  uint64_t registers;        /* physical address of the first, of fetch for VTA_HLS */
  const char *register_file; /* through which they are mapped: /dev/mem */
  uint32_t timeout_ms;       /* for one launch */
} VtaSettings;

/* What the board's configuration says; a flow and registers that it does not name are 0. */
VtaSettings vta_default_settings(void);

/* Bytes of memory that vta_open needs. */
uint64_t vta_memory_bytes(void);

/* Take memory and registers; `folder` is the compiled folder, with dram.bin. */
int vta_open(const char *folder, const VtaSettings *settings, const VtaMemory *memory);

/* Run once: tensors of the network in the order of manifest.json, each raw and row-major. */
int vta_run(const void *const *inputs, void *const *outputs);

/* Give the registers back; the memory is the caller's. */
void vta_close(void);

/* Why the last function failed. */
const char *vta_error(void);

/* Nanoseconds of the last run of a launch, and cycles where VTA counts them (VTA_CHISEL), else 0. */
uint64_t vta_launch_nanoseconds(unsigned launch);
uint32_t vta_launch_cycles(unsigned launch);

/* Memory from the kernel module u-dma-buf: the buffer `name`, for example udmabuf0. `devices` is
 * /dev and `classes` is /sys/class; VTA sees the buffer `address_offset` above its physical
 * address. */
int vta_open_udmabuf(VtaMemory *memory, const char *name, const char *devices,
                     const char *classes, uint64_t address_offset);
void vta_close_udmabuf(VtaMemory *memory);

/* What the compiler knows of the network: vta_network.c. */
typedef struct {
  uint32_t offset, size;
} VtaRange;

typedef struct {
  const char *name; /* of the layer, or of the first and the last that it runs */
  const char *file; /* raw instructions, in the folder */
  uint32_t count;   /* of instructions */
  const VtaRange *clean; /* before: what the CPU wrote there must be in memory */
  unsigned clean_count;
  const VtaRange *invalidate; /* after: what the CPU reads next */
  unsigned invalidate_count;
} VtaLaunch;

typedef struct {
  const char *name;
  uint64_t size; /* bytes */
} VtaTensor;

typedef struct {
  const char *dram_file;
  uint32_t dram_bytes;
  uint32_t uop_bytes, wgt_bytes, inp_bytes, acc_bytes, out_bytes; /* of an element in memory */
  unsigned launch_count, input_count, output_count;
  const VtaLaunch *launches;
  const VtaTensor *inputs, *outputs;
  VtaFlow flow;
  uint64_t registers, address_offset;
  uint32_t timeout_ms; /* ten times what the longest launch takes by prediction, or a second */
  int (*run)(void *arena, const void *const *inputs, void *const *outputs);
} VtaNetwork;

extern const VtaNetwork vta_network;

/* Between the files of the driver. */
int vta_map_registers(const VtaSettings *settings);
void vta_unmap_registers(void);
int vta_start_and_wait(uint64_t instructions, uint32_t count, uint64_t no_op, const char *name);
uint32_t vta_cycle_counter(void);

#ifdef __cplusplus
}
#endif
#endif
