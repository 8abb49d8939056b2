/*
 * Run a `.nnet` model: load it once, fill the inputs, run, read the outputs.
 *
 * C-compatible; no function throws, and only `ceras_load` and `ceras_unload` touch the heap.
 * The model is checked completely when it is loaded, so a file from anywhere can be given.
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
  CERAS_BAD_MODEL = 1,    /* `message` says what is wrong with the file */
  CERAS_OUT_OF_MEMORY = 2, /* the arena or the tables could not be allocated */
  CERAS_BAD_DEVICE = 3 /* an FPGA is too small, or did not finish a launch */
} ceras_status;

typedef enum {
  CERAS_F32 = 0,
  CERAS_I8 = 1,
  CERAS_U8 = 2,
  CERAS_I16 = 3,
  CERAS_U16 = 4,
  CERAS_I32 = 5,
  CERAS_I64 = 6,
  CERAS_BOOL = 7 /* a byte; all but 0 is true */
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
 * `data` must be aligned to 64 bytes and stay valid and unchanged until `ceras_unload`:
 * constants are read where they are. `message` may be null; it is always terminated.
 */
ceras_status ceras_load(const void *data, size_t size, ceras_model **model, char *message,
                        size_t message_size);
void ceras_unload(ceras_model *model);

/*
 * Begin a new sequence: what the model keeps from run to run is zero again, as behind `ceras_load`.
 * Nothing for a model without states.
 */
void ceras_reset(ceras_model *model);

/* Those of the caller's; the model's states are not among them. */
size_t ceras_input_count(const ceras_model *model);
size_t ceras_output_count(const ceras_model *model);
/* `index` must be smaller than the count. */
ceras_tensor ceras_input_info(const ceras_model *model, size_t index);
ceras_tensor ceras_output_info(const ceras_model *model, size_t index);

/* Inputs share memory with later values: get and fill all of them before every run. */
void *ceras_input(ceras_model *model, size_t index);
/* Valid until an input is written or the next run starts. */
const void *ceras_output(const ceras_model *model, size_t index);

/* CERAS_OK, or CERAS_BAD_DEVICE from then on, whose reason `ceras_failure` has. */
ceras_status ceras_run(ceras_model *model);
const char *ceras_failure(const ceras_model *model);

/* The bytes of a value: rows of equal length, `pitch` bytes from one to the next. */
typedef struct {
  const void *data;
  size_t rows; /* 1 if there are no gaps between them */
  size_t bytes; /* of each row */
  size_t pitch;
} ceras_rows;

/* Called after each layer with its number and its result. */
typedef void (*ceras_trace)(void *context, size_t layer, const ceras_rows *result);
ceras_status ceras_run_traced(ceras_model *model, ceras_trace trace, void *context);

/*
 * Calls `transfer` for every value that one side makes and the other reads, once per value in
 * the order of the readers: what a system without coherent caches flushes and invalidates. The
 * caller is on the CPU's side, and reads the outputs as if it were one layer more.
 */
typedef struct {
  size_t layer;   /* number of the layer that reads it first */
  int to_fpga;    /* 1, or 0 to the CPU */
  size_t offset;  /* of its first byte in the arena */
  ceras_rows value;
} ceras_crossing;
typedef void (*ceras_transfer)(void *context, const ceras_crossing *crossing);
void ceras_transfers(const ceras_model *model, ceras_transfer transfer, void *context);

#ifdef __cplusplus
}
#endif

#endif
