// The constants of the nnet format; docs/nnet-format.md specifies them.
#pragma once

#include <cstdint>

namespace ceras {

constexpr uint8_t MAGIC[8] = {'N', 'N', 'E', 'T', '\r', '\n', 0x1a, '\n'};
constexpr uint32_t OLDEST_VERSION = 4;  // of a file without packed constants
constexpr uint32_t VERSION = 5;
constexpr uint64_t HEADER_BYTES = 32;
constexpr uint64_t SECTION_ENTRY_BYTES = 24;
constexpr uint64_t SECTION_ALIGNMENT = 64;
constexpr uint64_t TENSOR_BYTES = 64;
constexpr uint64_t BLOCK_BYTES = 24;
constexpr uint64_t BORDER_BYTES = 8;
constexpr uint64_t LAYER_BYTES = 64;
constexpr uint64_t NETWORK_BYTES = 40;
constexpr uint64_t TABLE_BYTES = 256;
constexpr uint32_t NONE = 0xffffffffu;
constexpr uint32_t MAX_RANK = 8;

// The limits of this engine. Larger files are valid, but refused.
constexpr uint64_t MAX_ARENA_BYTES = uint64_t{1} << 31;
constexpr uint32_t MAX_WINDOW = 1u << 15;
constexpr int64_t MAX_SCRATCH_BYTES = int64_t{1} << 28;
constexpr int64_t MAX_PACKED_BYTES = int64_t{1} << 30;
constexpr uint64_t MAX_EXPANDED_BYTES = uint64_t{1} << 30;  // of packed constants
constexpr double MAX_WORK = 1e12;  // Products and elements of a run.

enum Section : uint32_t {
  NETWORK = 1,
  TENSORS,
  BLOCKS,
  INPUTS,
  OUTPUTS,
  LAYERS,
  OPERANDS,
  ATTRIBUTES,
  STRINGS,
  TABLES,
  BIASES,
  FLOATS,
  WEIGHTS
};
constexpr uint32_t SECTION_COUNT = 13;

enum class Device : uint8_t { Cpu = 0, Fpga = 1 };

enum class Storage : uint8_t { F32 = 0, I8, U8, I16, U16, I32, I64, Bool };
constexpr uint8_t LAST_STORAGE = 7;

enum class Location : uint8_t { Arena = 0, Weights, Biases, Floats };

enum class Rounding : uint8_t { HalfUp = 0, HalfAway, HalfEven, Floor };

// Other functions have the numbers of the order in docs/dialects.md; see "functions.h".
enum class Function : uint8_t { None = 0 };

enum LayerFlag : uint8_t {
  HAS_REQUANT = 1,
  HAS_BIAS = 2,
  HAS_RESIDUAL = 4,
  HAS_MULTIPLIERS = 8,
  HAS_TABLE = 16,
  ALL_FLAGS = 31
};
constexpr int64_t MAX_STATE_WIDTH = 1 << 14;    // units of a recurrent layer
constexpr int64_t MAX_STATE_WEIGHTS = 1 << 25;  // of a recurrent layer
constexpr uint32_t MAX_FACTOR = 1u << 22;  // of an operand of `binary`

enum PoolKind : uint32_t { POOL_MAX = 0, POOL_AVERAGE = 1 };
enum BinaryKind : uint32_t {
  BINARY_ADD = 0,
  BINARY_SUB = 1,
  BINARY_MUL = 2,
  // Only for floats:
  BINARY_DIV = 3,
  BINARY_MIN = 4,
  BINARY_MAX = 5,
  BINARY_POW = 9
};
// Only for integers that wrap around:
enum IntegerKind : uint32_t { INTEGER_AND = 6, INTEGER_OR = 7, INTEGER_XOR = 8 };
enum CompareKind : uint32_t { COMPARE_EQUAL = 0, COMPARE_LESS = 1, COMPARE_LESS_OR_EQUAL = 2 };
enum ReduceKind : uint32_t { REDUCE_SUM = 0, REDUCE_PRODUCT = 1, REDUCE_MAX = 2, REDUCE_MIN = 3 };
enum CellKind : uint32_t { CELL_RNN = 0, CELL_GRU = 1, CELL_GRU_RESET_FIRST = 2, CELL_LSTM = 3 };
enum ResizeKind : uint32_t { RESIZE_NEAREST = 0, RESIZE_LINEAR = 1 };

}  // namespace ceras
