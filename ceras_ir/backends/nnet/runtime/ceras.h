/*
 * Execute a `.nnet` model: load it, write the inputs, run, read the outputs.
 *
 * C-compatible; no function throws, and only `ceras_load` and `ceras_unload` touch the heap.
 * The model is checked completely when it is loaded, so files from unknown sources are safe.
 * The format is described in docs/nnet-format.md.
 */
#ifndef CERAS_H
#define CERAS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CERAS_OK = 0,
  CERAS_BAD_MODEL = 1,    /* `message` has the reason */
  CERAS_OUT_OF_MEMORY = 2, /* the arena or the tables could not be allocated */
  CERAS_BAD_DEVICE = 3 /* the FPGA is too small, or a launch did not finish */
} ceras_status;

typedef enum {
  CERAS_F32 = 0,
  CERAS_I8 = 1,
  CERAS_U8 = 2,
  CERAS_I16 = 3,
  CERAS_U16 = 4,
  CERAS_I32 = 5,
  CERAS_I64 = 6,
  CERAS_BOOL = 7 /* a byte; all values but 0 are true */
} ceras_storage;

typedef struct {
  const char *name;
  ceras_storage storage;
  uint32_t rank;
  uint32_t shape[8];
  size_t bytes;
  float scale; /* real = scale * (stored - zero_point); 0 for float tensors */
  int32_t zero_point;
} ceras_tensor;

typedef struct ceras_model ceras_model;

/*
 * `data` must be aligned to 64 bytes and remain valid and unchanged until `ceras_unload`, because
 * constants are not copied. `message` may be null; it is always terminated.
 */
ceras_status ceras_load(const void *data, size_t size, ceras_model **model, char *message,
                        size_t message_size);
void ceras_unload(ceras_model *model);

/*
 * Begin a new sequence: reset all states to zero, as after `ceras_load`. Without states, do
 * nothing.
 */
void ceras_reset(ceras_model *model);

/* The number of inputs and outputs without states. */
size_t ceras_input_count(const ceras_model *model);
size_t ceras_output_count(const ceras_model *model);
/* `index` must be smaller than the count. */
ceras_tensor ceras_input_info(const ceras_model *model, size_t index);
ceras_tensor ceras_output_info(const ceras_model *model, size_t index);

/* Inputs share memory with other values: get and write all inputs before each run. */
void *ceras_input(ceras_model *model, size_t index);
/* Valid until an input is written or the next run starts. */
const void *ceras_output(const ceras_model *model, size_t index);

/* CERAS_OK, or CERAS_BAD_DEVICE for this and all later runs; see `ceras_failure`. */
ceras_status ceras_run(ceras_model *model);
const char *ceras_failure(const ceras_model *model);

/* The bytes of a value: rows of equal length, `pitch` bytes apart. */
typedef struct {
  const void *data;
  size_t rows; /* 1 without gaps between rows */
  size_t bytes; /* of each row */
  size_t pitch;
} ceras_rows;

/* Called after each layer with the number and the result. */
typedef void (*ceras_trace)(void *context, size_t layer, const ceras_rows *result);
ceras_status ceras_run_traced(ceras_model *model, ceras_trace trace, void *context);

/*
 * Call `transfer` for each value that one side writes and the other reads, a single time per value,
 * in the order of the consumers. A system without coherent caches flushes and invalidates these
 * values. The caller counts as a layer on the CPU that reads the outputs.
 */
typedef struct {
  size_t layer;   /* the number of the first layer that reads it */
  int to_fpga;    /* 1 to the FPGA, 0 to the CPU */
  size_t offset;  /* of the first byte in the arena */
  ceras_rows value;
} ceras_crossing;
typedef void (*ceras_transfer)(void *context, const ceras_crossing *crossing);
void ceras_transfers(const ceras_model *model, ceras_transfer transfer, void *context);

#ifdef __cplusplus
}
#endif

#endif
