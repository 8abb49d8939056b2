#include "loader.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <tuple>
#include <utility>

#include "checks.h"
#include "container.h"
#include "float_functions.h"
#include "fpga.h"
#include "operation.h"
#include "replay.h"
#include "zero_blocks.h"
#if defined(CERAS_RED_ZONES)
#include <sanitizer/asan_interface.h>
#endif

namespace ceras {
namespace {

struct Loader {
  Model& model;
  char* message;
  size_t message_size;
  Container file;
  uint64_t arena_bytes = 0;
  uint64_t next_operand = 0;
  uint64_t next_word = 0;
  // The constants that were expanded, by offset, bits, sign and bytes of a row, and their bytes.
  std::map<std::tuple<uint64_t, int, Storage, int64_t, int64_t>, const uint8_t*> expanded;
  uint64_t expanded_bytes = 0;

  bool fail(const char* reason) {
    if (message != nullptr && message_size > 0) std::snprintf(message, message_size, "%s", reason);
    return false;
  }

  bool fail(const char* kind, uint64_t index, const char* reason) {
    if (message != nullptr && message_size > 0)
      std::snprintf(message, message_size, "%s %llu: %s", kind,
                    static_cast<unsigned long long>(index), reason);
    return false;
  }

  // The text at an offset of the string section; null outside the section.
  const char* string(uint32_t offset) const {
    const Bytes& strings = file[STRINGS];
    return offset < strings.size ? reinterpret_cast<const char*>(strings.data) + offset : nullptr;
  }

  bool network() {
    const Bytes& info = file[NETWORK];
    const Bytes& strings = file[STRINGS];
    if (info.size != NETWORK_BYTES) return fail("the network section has the wrong size");
    if (strings.size == 0 || strings.data[0] != 0 || strings.data[strings.size - 1] != 0)
      return fail("the string section does not start and end with a zero");
    const struct {
      Section section;
      uint64_t bytes;
    } counted[] = {{TENSORS, TENSOR_BYTES}, {BLOCKS, BLOCK_BYTES}, {INPUTS, BORDER_BYTES},
                   {OUTPUTS, BORDER_BYTES}, {LAYERS, LAYER_BYTES}};
    for (int i = 0; i < 5; ++i)
      if (info.at<uint32_t>(12 + 4 * i) * counted[i].bytes != file[counted[i].section].size)
        return fail("a table does not have the number of entries in the network section");
    if (info.at<uint32_t>(36) != 0) return fail("reserved bytes are not zero");
    for (Section section : {OPERANDS, ATTRIBUTES})
      if (file[section].size % 4 != 0)
        return fail("the size of a list section is not a multiple of 4");
    if (file[TABLES].size % TABLE_BYTES != 0) return fail("a lookup table is truncated");
    const uint32_t alignment = info.at<uint32_t>(8);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 4096)
      return fail("the arena alignment must be a power of two of at most 4096");
    arena_bytes = info.at<uint64_t>(0);
    if (arena_bytes > MAX_ARENA_BYTES) return fail("the arena exceeds the limit of this engine");
    return true;
  }

  bool arena() {
    // calloc returns zeroed memory, and does not allocate pages that no layer uses.
    constexpr uint64_t ALIGNMENT = 4096;
    if (fpga_circuits != nullptr && (model.base = fpga_circuits->arena(arena_bytes)) != nullptr)
      return true;
    model.arena = {static_cast<uint8_t*>(std::calloc(arena_bytes + ALIGNMENT, 1)), std::free};
    if (!model.arena) throw std::bad_alloc();
    const uintptr_t address = reinterpret_cast<uintptr_t>(model.arena.get());
    model.base = model.arena.get() + (ALIGNMENT - address % ALIGNMENT) % ALIGNMENT;
    return true;
  }

  // Expand a packed constant to a byte per integer. Each row (the first extent) starts at a byte.
  const char* expand(Tensor& tensor, uint64_t offset) {
    const int64_t rows = tensor.rank > 0 ? tensor.dims[0] : 1, row = tensor.elements / rows;
    const int64_t row_bytes = (row * tensor.bits + 7) / 8;
    if (!file[WEIGHTS].holds(offset, static_cast<uint64_t>(rows * row_bytes)))
      return "the tensor is not inside the section";
    const uint8_t* from = file[WEIGHTS].data + offset;
    const auto found = expanded.emplace(
        std::tuple(offset, tensor.bits, tensor.storage, rows, row), nullptr);
    const uint8_t*& known = found.first->second;
    if (found.second) {
      expanded_bytes += static_cast<uint64_t>(tensor.elements);
      if (expanded_bytes > MAX_EXPANDED_BYTES) return "the weights exceed the available memory";
      model.expanded.emplace_back(new uint8_t[static_cast<size_t>(tensor.elements)]);
      uint8_t* to = model.expanded.back().get();
      for (int64_t i = 0; i < rows; ++i)
        if (!expand_row(tensor, from + i * row_bytes, row, to + i * row))
          return "unused bits of a packed row are not zero";
      known = to;
    }
    tensor.data = known;
    return nullptr;
  }

  // Return false if an unused bit of the last byte is not zero.
  static bool expand_row(const Tensor& tensor, const uint8_t* from, int64_t count, uint8_t* to) {
    const int bits = tensor.bits;
    const uint8_t sign = tensor.storage == Storage::I8 ? static_cast<uint8_t>(1 << (bits - 1)) : 0;
    for (int64_t i = 0; i < count; ++i) {
      const int value = from[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
      to[i] = static_cast<uint8_t>((value ^ sign) - sign);
    }
    const int64_t used = count * bits % 8;
    return used == 0 || from[count * bits / 8] >> used == 0;
  }

  // Resolve the address of the tensor. Return null, or the reason of a refusal.
  const char* place(Tensor& tensor, Location location, uint32_t block, uint64_t offset) {
    const uint64_t bytes = static_cast<uint64_t>(tensor.extent);
    const uint64_t unit = static_cast<uint64_t>(bytes_of(tensor.storage));
    if (offset % unit != 0) return "it is not aligned to the elements";
    if (location == Location::Arena) {
      const Bytes& blocks = file[BLOCKS];
      if (block >= blocks.size / BLOCK_BYTES) return "the block does not exist";
      const uint64_t start = blocks.at<uint64_t>(block * BLOCK_BYTES + 8);
      const uint64_t size = blocks.at<uint64_t>(block * BLOCK_BYTES + 16);
      if (offset < start || offset - start > size || bytes > size - (offset - start))
        return "the tensor is not inside the block";
      tensor.target = model.base + offset;
      tensor.data = tensor.target;
      return nullptr;
    }
    if (block != NONE) return "a constant has no block";
    if (tensor.has_gaps()) return "a constant has no gaps between rows";
    const Section section = location == Location::Weights  ? WEIGHTS
                            : location == Location::Biases ? BIASES
                                                           : FLOATS;
    const bool fits = location == Location::Weights  ? unit == 1
                      : location == Location::Biases ? tensor.quantized() && unit > 1
                                                     : !tensor.quantized();
    if (!fits) return "the elements belong to another section";
    if (tensor.bits < 8) return expand(tensor, offset);
    if (!file[section].holds(offset, bytes)) return "the tensor is not inside the section";
    tensor.data = file[section].data + offset;
    return nullptr;
  }

  const char* tensor(uint64_t record, Tensor& tensor) {
    const Bytes& table = file[TENSORS];
    const uint8_t storage = table.at<uint8_t>(record + 4), rank = table.at<uint8_t>(record + 5);
    const uint8_t location = table.at<uint8_t>(record + 6);
    const char* name = string(table.at<uint32_t>(record));
    if (name == nullptr) return "the name is outside the string section";
    if (storage > LAST_STORAGE) return "unknown storage type";
    if (rank > MAX_RANK) return "the rank is above 8";
    if (location > static_cast<uint8_t>(Location::Floats)) return "unknown location";
    tensor.name = name;
    tensor.storage = static_cast<Storage>(storage);
    if (const int bits = table.at<uint8_t>(record + 7); bits != 0) {
      if (file.version == OLDEST_VERSION) return "reserved bytes are not zero";
      const bool is_byte = tensor.storage == Storage::I8 || tensor.storage == Storage::U8;
      if ((bits != 2 && bits != 4) || !is_byte || location != static_cast<uint8_t>(Location::Weights))
        return "only weights can be packed, in 2 or 4 bits";
      tensor.bits = bits;
    }
    tensor.rank = rank;
    tensor.elements = 1;
    for (uint32_t i = 0; i < MAX_RANK; ++i) {
      const uint32_t extent = table.at<uint32_t>(record + 32 + 4 * i);
      if (i >= rank) {
        if (extent != 0) return "reserved bytes are not zero";
        continue;
      }
      // The product is at most 2^31 after each step, so it cannot overflow 64 bits.
      if (extent == 0 || extent > MAX_ARENA_BYTES) return "an extent is out of range";
      tensor.dims[i] = extent;
      tensor.elements *= extent;
      if (tensor.elements > static_cast<int64_t>(MAX_ARENA_BYTES)) return "the tensor is too large";
    }
    tensor.bytes = tensor.elements * bytes_of(tensor.storage);
    tensor.scale = table.at<float>(record + 8);
    tensor.zero_point = table.at<int32_t>(record + 12);
    if (tensor.quantized()) {
      if (!std::isfinite(tensor.scale) || tensor.scale <= 0) return "the scale is not positive";
      if (tensor.zero_point < low_of(tensor.storage) || tensor.zero_point > high_of(tensor.storage))
        return "the zero point is out of range";
      if (is_only_plain(tensor.storage) && !is_plain(tensor))
        return "integers of 64 bits and booleans have no scale or zero point";
    } else if (table.at<uint32_t>(record + 8) != 0 || tensor.zero_point != 0) {
      return "a float tensor has no scale or zero point";
    }
    if (const char* reason = lay_rows(tensor, table.at<uint32_t>(record + 20))) return reason;
    return place(tensor, static_cast<Location>(location), table.at<uint32_t>(record + 16),
                 table.at<uint64_t>(record + 24));
  }

  bool tensors() {
    const Bytes& blocks = file[BLOCKS];
    for (uint64_t i = 0; i < blocks.size / BLOCK_BYTES; ++i) {
      const uint64_t offset = blocks.at<uint64_t>(i * BLOCK_BYTES + 8);
      const uint64_t size = blocks.at<uint64_t>(i * BLOCK_BYTES + 16);
      if (blocks.at<uint32_t>(i * BLOCK_BYTES + 4) != 0)
        return fail("block", i, "reserved bytes are not zero");
      if (offset > arena_bytes || size > arena_bytes - offset)
        return fail("block", i, "the block is not inside the arena");
    }
    const uint64_t count = file[TENSORS].size / TENSOR_BYTES;
    model.tensors.resize(count);
    for (uint64_t i = 0; i < count; ++i) {
      if (const char* reason = tensor(i * TENSOR_BYTES, model.tensors[i]))
        return fail("tensor", i, reason);
    }
    return true;
  }

  bool borders() {
    for (Section section : {INPUTS, OUTPUTS}) {
      const Bytes& table = file[section];
      auto& list = section == INPUTS ? model.inputs : model.outputs;
      for (uint64_t at = 0; at < table.size; at += BORDER_BYTES) {
        const uint32_t id = table.at<uint32_t>(at);
        const char* name = string(table.at<uint32_t>(at + 4));
        if (id >= model.tensors.size()) return fail("an input or output does not exist");
        if (name == nullptr)
          return fail("the name of an input or output is outside the string section");
        list.push_back({&model.tensors[id], name});
        if (section == INPUTS && model.tensors[id].constant())
          return fail("an input is a constant");
        if (model.tensors[id].has_gaps())
          return fail("an input or output has gaps between the rows");
      }
    }
    return true;
  }

  // The states are the last inputs and outputs; the network section has their number.
  bool states() {
    const uint64_t count = file[NETWORK].at<uint32_t>(32);
    if (count > model.inputs.size() || count > model.outputs.size())
      return fail("there are more states than inputs or outputs");
    uint64_t bytes = 0;
    for (uint64_t i = count; i > 0; --i) {
      const Tensor& input = *model.inputs[model.inputs.size() - i].tensor;
      const Tensor& output = *model.outputs[model.outputs.size() - i].tensor;
      if (!same_shape(input, output) || !same_type(input, output))
        return fail("a state and its next value have different types");
      // Inputs do not overlap, so no valid file exceeds the arena.
      bytes += static_cast<uint64_t>(input.bytes);
      if (bytes > arena_bytes) return fail("the states exceed the arena");
      std::unique_ptr<uint8_t[]> kept(new uint8_t[static_cast<size_t>(input.bytes)]);
      model.states.push_back({&input, &output, std::move(kept)});
    }
    reset(model);
    return true;
  }

  // Read the fields of a layer record and the lists to which it refers.
  const char* layer(uint64_t record, Layer& layer) {
    const Bytes& table = file[LAYERS];
    const uint16_t opcode = table.at<uint16_t>(record);
    const uint8_t device = table.at<uint8_t>(record + 2), flags = table.at<uint8_t>(record + 3);
    const uint32_t operand = table.at<uint32_t>(record + 8);
    const uint32_t operands = table.at<uint32_t>(record + 12);
    const uint32_t result = table.at<uint32_t>(record + 16);
    const uint32_t word = table.at<uint32_t>(record + 20), words = table.at<uint32_t>(record + 24);
    const uint8_t function = table.at<uint8_t>(record + 28);
    const uint8_t rounding = table.at<uint8_t>(record + 29);
    const uint32_t lookup = table.at<uint32_t>(record + 56);
    layer.operation = operation_of(opcode);
    if (layer.operation == nullptr) return "unknown opcode";
    if (device > static_cast<uint8_t>(Device::Fpga)) return "unknown device";
    if ((flags & ~ALL_FLAGS) != 0) return "unknown flags";
    if (function > LAST_FUNCTION) return "unknown function";
    if (rounding > static_cast<uint8_t>(Rounding::Floor)) return "unknown rounding";
    if (table.at<uint32_t>(record + 60) != 0) return "reserved bytes are not zero";
    layer.name = string(table.at<uint32_t>(record + 4));
    if (layer.name == nullptr) return "the name is outside the string section";
    // Lists must be contiguous, so that a small file cannot require much memory.
    if (operand != next_operand || !file[OPERANDS].holds(next_operand * 4, uint64_t{operands} * 4))
      return "the operands do not follow those of the previous layer";
    if (word != next_word || !file[ATTRIBUTES].holds(next_word * 4, uint64_t{words} * 4))
      return "the attributes do not follow those of the previous layer";
    next_operand += operands;
    next_word += words;
    if (result >= model.tensors.size() || model.tensors[result].constant())
      return "the result is not a tensor of the arena";
    layer.device = static_cast<Device>(device);
    layer.result = &model.tensors[result];
    layer.operands.reserve(operands);
    for (uint64_t i = operand; i < uint64_t{operand} + operands; ++i) {
      const uint32_t id = file[OPERANDS].at<uint32_t>(4 * i);
      if (id >= model.tensors.size()) return "an operand does not exist";
      layer.operands.push_back(&model.tensors[id]);
    }
    layer.attributes.reserve(words);
    for (uint64_t i = word; i < uint64_t{word} + words; ++i)
      layer.attributes.push_back(file[ATTRIBUTES].at<uint32_t>(4 * i));
    layer.function = static_cast<Function>(function);
    layer.parameters[0] = table.at<float>(record + 32);
    layer.parameters[1] = table.at<float>(record + 36);
    layer.has_requant = (flags & HAS_REQUANT) != 0;
    Requant& requant = layer.requant;
    requant.multiplier = table.at<uint32_t>(record + 40);
    requant.shift = table.at<uint8_t>(record + 30);
    requant.rounding = static_cast<Rounding>(rounding);
    requant.zero_point = table.at<int32_t>(record + 44);
    requant.low = table.at<int32_t>(record + 48);
    requant.high = table.at<int32_t>(record + 52);
    layer.residual_shift = table.at<uint8_t>(record + 31);
    if (lookup != NONE) {
      if (lookup >= file[TABLES].size / TABLE_BYTES) return "the lookup table does not exist";
      layer.table = file[TABLES].data + lookup * TABLE_BYTES;
    }
    const bool fused = (flags & HAS_TABLE) != 0;
    if (fused && !layer.operation->takes(EPILOGUE)) return "only convolutions and products fuse a table";
    if (layer.operation->takes(EPILOGUE) && fused != (lookup != NONE))
      return "the flags and the table disagree";
    const char* reason = fused ? fused_tables(lookup, layer) : tables(layer);
    return reason != nullptr ? reason : counts(flags, layer);
  }

  // The attributes of a lookup: the number of entries, then the begin of each table.
  const char* tables(Layer& layer) {
    if (layer.table == nullptr || !layer.operation->takes(LOOKUP) || layer.attributes.empty())
      return nullptr;
    const uint64_t entries = layer.attributes[0];
    if (entries < TABLE_BYTES || entries > 1u << 16 || (entries & (entries - 1)) != 0)
      return "the tables have a wrong number of entries";
    if (layer.attributes.size() < 2) return "the tables are missing";
    for (size_t i = 1; i < layer.attributes.size(); ++i)
      if (!add_table(layer, layer.attributes[i], entries)) return "the lookup table does not exist";
    return nullptr;
  }

  // The begins of the tables of channels follow the attributes of a convolution or product. Without
  // them, all channels have the table of the record.
  const char* fused_tables(uint32_t first, Layer& layer) {
    auto& words = layer.attributes;
    const size_t own = static_cast<size_t>(layer.operation->words);
    if (words.size() <= own) {
      if (!add_table(layer, first, TABLE_BYTES)) return "the lookup table does not exist";
      return nullptr;
    }
    if (words[own] != first) return "the table is not that of the first channel";
    for (size_t i = own; i < words.size(); ++i)
      if (!add_table(layer, words[i], TABLE_BYTES)) return "the lookup table does not exist";
    words.resize(own);
    return nullptr;
  }

  // Add the address of index 0 of a table. Return false if the table is outside the section.
  bool add_table(Layer& layer, uint64_t piece, uint64_t entries) {
    const Storage made = layer.result->storage;
    const uint64_t size = made == Storage::F32 ? 4 : made == Storage::I16 ? 2 : 1;
    if (!file[TABLES].holds(piece * TABLE_BYTES, entries * size)) return false;
    layer.tables.push_back(file[TABLES].data + piece * TABLE_BYTES + entries / 2 * size);
    return true;
  }

  // Check the numbers of operands and attributes. Bias, multipliers and residual are the last
  // operands, in this order, if the flags are set.
  static const char* counts(uint8_t flags, Layer& layer) {
    const Operation& operation = *layer.operation;
    const bool bias = (flags & HAS_BIAS) != 0, residual = (flags & HAS_RESIDUAL) != 0;
    const bool multipliers = (flags & HAS_MULTIPLIERS) != 0;
    if (!operation.takes(EPILOGUE) && (bias || residual || multipliers))
      return "only convolutions and products have a bias";
    const size_t own = static_cast<size_t>(operation.operands);
    const size_t expected = own + bias + multipliers + residual;
    if (operation.operands == ANY ? layer.operands.empty() : layer.operands.size() != expected)
      return "wrong number of operands";
    if (operation.words != ANY && layer.attributes.size() != static_cast<size_t>(operation.words))
      return "wrong number of attributes";
    if (bias) layer.bias = layer.operands[own];
    if (multipliers) layer.multipliers = layer.operands[own + bias];
    if (residual) layer.residual = layer.operands.back();
    return nullptr;
  }

  bool layers() {
    const uint64_t count = file[LAYERS].size / LAYER_BYTES;
    model.layers.resize(count);
    int64_t scratch = 0, packed = 0;
    double work = 0;
    bool fpga = false;
    for (uint64_t i = 0; i < count; ++i) {
      Layer& item = model.layers[i];
      const char* reason = layer(i * LAYER_BYTES, item);
      if (reason == nullptr) reason = item.operation->prepare(item);
      if (reason == nullptr) reason = check_layer(item);
      if (reason == nullptr) reason = check_accumulator(item);
      if (reason == nullptr && item.device == Device::Fpga) reason = check_fpga_layer(item);
      if (reason != nullptr) return fail("layer", i, reason);
      const int64_t own = item.operation->packed(item);
      packed += own;
      if (packed > MAX_PACKED_BYTES) return fail("the weights exceed the available memory");
      item.ordered.resize(static_cast<size_t>(own));
      item.operation->pack(item, item.ordered.data());
      item.live = live_blocks(item);
      item.run = operator_of(item);
      scratch = std::max(scratch, scratch_bytes(item));
      work += item.operation->work(item);
      fpga = fpga || item.device == Device::Fpga;
    }
    if (next_operand * 4 != file[OPERANDS].size || next_word * 4 != file[ATTRIBUTES].size)
      return fail("the layers do not use all operands or attributes");
    if (scratch > MAX_SCRATCH_BYTES) return fail("a layer exceeds the limit of working memory");
    // A small file can require years of computation.
    if (work > MAX_WORK) return fail("the network exceeds the work limit of this engine");
    model.scratch.storage.reset(new uint8_t[static_cast<size_t>(scratch) + 64]);
    if (const char* reason = replay(model)) return fail(reason);
    const uintptr_t address = reinterpret_cast<uintptr_t>(model.scratch.storage.get());
    model.scratch.base = model.scratch.storage.get() + (64 - address % 64) % 64;
    if (fpga) model.scratch.fpga = std::make_unique<FpgaBuffers>();
    return fpga_pack(model) || fail("the weights exceed the available memory");
  }
};

// For tests: make the bytes of the arena that belong to no tensor inaccessible.
void add_red_zones(const Model& model, uint64_t arena_bytes) {
#if defined(CERAS_RED_ZONES)
  if (model.arena == nullptr) return;
  const uint8_t* end = model.arena.get() + arena_bytes + 4096;
  __asan_poison_memory_region(model.base, static_cast<size_t>(end - model.base));
  for (const Tensor& tensor : model.tensors)
    if (!tensor.constant())
      __asan_unpoison_memory_region(tensor.data, static_cast<size_t>(tensor.extent));
#else
  (void)model, (void)arena_bytes;
#endif
}

}  // namespace

void reset(Model& model) {
  for (State& state : model.states) {
    const Tensor& tensor = *state.input;
    const int64_t unit = bytes_of(tensor.storage);
    uint8_t zero[8];
    for (int64_t i = 0; i < unit; ++i)
      zero[i] = static_cast<uint8_t>(static_cast<uint64_t>(tensor.zero_point) >> 8 * i);
    for (int64_t at = 0; at < tensor.bytes; at += unit)
      std::memcpy(state.kept.get() + at, zero, static_cast<size_t>(unit));
  }
}

bool load(const uint8_t* data, uint64_t size, Model& model, char* message, size_t message_size) {
  Loader loader{model, message, message_size, {}, 0, 0, 0, {}, 0};
  if (reinterpret_cast<uintptr_t>(data) % SECTION_ALIGNMENT != 0)
    return loader.fail("the file must be in memory that is aligned to 64 bytes");
  if (const char* reason = open_container(data, size, loader.file)) return loader.fail(reason);
  if (!loader.network() || !loader.arena() || !loader.tensors() || !loader.borders() ||
      !loader.states() || !loader.layers())
    return false;
  add_red_zones(model, loader.arena_bytes);
  return true;
}

}  // namespace ceras
