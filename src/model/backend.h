// What a device must do with a model: the verbs of a forward pass. The forward pass calls the verbs and a backend
// carries them out; neither knows more of the other than this file and model.h.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"

namespace heddle::model {

// What the KV cache keeps of each value.
enum class KvFormat : uint8_t {
  f16,
  q8,  // int8, with an f16 scale for each 32 values of a head, and for those that are left over
};

struct Limits {
  uint32_t rows = 512;         // of a batch
  uint32_t kv_blocks = 0;      // in the cache
  uint32_t block_tokens = 32;  // positions of a block
  KvFormat kv = KvFormat::f16;
  uint32_t state_slots = 0;  // places for recurrent states; 0: the model has none
  // In the caches of attentions that see a window or a chunk of a text: a block goes back when no later token sees it.
  // 0: all caches have kv_blocks, and one block table.
  uint32_t window_blocks = 0;
};
constexpr uint32_t no_block = ~0u;  // in a block table of windows: no row sees these positions any more

// Bytes that a model takes on a device.
struct Memory {
  uint64_t weights = 0, kv = 0, states = 0, workspace = 0;
  uint64_t in_file = 0;  // weights that are read from the file at each step: memory that the system can take back
  uint64_t total() const { return weights + kv + states + workspace; }
};
// Bytes of a token in the cache of an attention.
inline uint64_t kv_bytes(const Attention& a, KvFormat format) {
  const auto of = [&](uint64_t head) { return format == KvFormat::f16 ? head * 2 : head + (head + 31) / 32 * 2; };
  return a.kv_heads * (of(a.head) + (a.values_in_keys() ? 0 : of(a.value_head)));
}
// For each attention, in the order of each_attention(), the number of its KV cache; caches are numbered from 0 in that
// order too. A causal attention reads keys and values of earlier batches and has a cache of its own, unless its
// shared_cache says otherwise. Other models compute a text in one batch, so an attention's keys and values are not read
// after it: those of one shape share a cache.
inline std::vector<uint32_t> kv_cache_numbers(const Model& model) {
  std::vector<const Attention*> of_cache;
  std::vector<uint32_t> numbers;
  each_attention(model, [&](const Attention& a) {
    const auto found = std::find_if(of_cache.begin(), of_cache.end(), [&](const Attention* b) {
      if (a.shared_cache) return a.shared_cache == b->shared_cache;
      return !a.causal && !b->causal && a.kv_heads == b->kv_heads && a.head == b->head &&
             a.value_head == b->value_head && a.values_in_keys() == b->values_in_keys();
    });
    numbers.push_back(uint32_t(found - of_cache.begin()));
    if (found == of_cache.end()) of_cache.push_back(&a);
  });
  return numbers;
}
// How far back the attentions with window blocks see.
struct Windows {
  struct Sight {
    uint32_t window, chunk;  // as of Attention
    bool operator==(const Sight&) const = default;
  };
  std::vector<Sight> all;

  // The first position that a row at `position` sees, by any of them.
  uint32_t first_seen(uint32_t position) const {
    uint32_t first = position;
    for (const auto& [window, chunk] : all) {
      const uint32_t in_window = window ? position - std::min(position, window - 1) : 0;
      first = std::min(first, chunk ? std::max(in_window, position / chunk * chunk) : in_window);
    }
    return first;
  }
  // Positions that a row sees at most, by any of them.
  uint32_t longest() const {
    uint32_t longest = 0;
    for (const auto& [window, chunk] : all)
      longest = std::max(longest, window && chunk ? std::min(window, chunk) : window + chunk);
    return longest;
  }
};
// Of each KV cache, by its number: whether all attentions that read it see a window or a chunk only.
inline std::vector<bool> kv_caches_of_windows(const Model& model) {
  const std::vector<uint32_t> numbers = kv_cache_numbers(model);
  std::vector<bool> of_windows(numbers.size(), true);
  uint32_t attention = 0;
  each_attention(model, [&](const Attention& a) {
    const uint32_t number = numbers[attention++];
    of_windows[number] = of_windows[number] && a.causal && (a.window || a.chunk);
  });
  return of_windows;
}
inline Windows windows_of(const Model& model) {
  const std::vector<uint32_t> numbers = kv_cache_numbers(model);
  const std::vector<bool> of_windows = kv_caches_of_windows(model);
  Windows windows;
  uint32_t attention = 0;
  each_attention(model, [&](const Attention& a) {
    const Windows::Sight sight{a.window, a.chunk};
    if (!of_windows[numbers[attention++]]) return;
    if (std::find(windows.all.begin(), windows.all.end(), sight) == windows.all.end()) windows.all.push_back(sight);
  });
  return windows;
}
// f(attention, of_windows) for the first attention of each KV cache.
void each_kv_cache(const Model& model, auto&& f) {
  const std::vector<uint32_t> numbers = kv_cache_numbers(model);
  const std::vector<bool> of_windows = kv_caches_of_windows(model);
  uint32_t attention = 0, count = 0;
  each_attention(model, [&](const Attention& a) {
    if (numbers[attention++] != count) return;
    f(a, bool(of_windows[count++]));
  });
}
// Blocks of such a cache.
inline uint32_t blocks_of_cache(const Limits& limits, bool of_windows) {
  return of_windows && limits.window_blocks ? limits.window_blocks : limits.kv_blocks;
}
// Bytes that the KV cache takes, capped at 2^60: no machine has that, and sums with it do not overflow.
inline uint64_t kv_bytes(const Model& model, const Limits& limits) {
  constexpr uint64_t most = uint64_t(1) << 60;
  uint64_t all = 0;
  each_kv_cache(model, [&](const Attention& a, bool of_windows) {
    const uint64_t positions = uint64_t(blocks_of_cache(limits, of_windows)) * limits.block_tokens;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(kv_bytes(a, limits.kv), positions, &bytes)) bytes = most;
    all = std::min(all + std::min(bytes, most), most);
  });
  return all;
}
// Bytes that the recurrent states take in all slots.
inline uint64_t state_bytes(const Model& model, const Limits& limits) {
  return state_bytes(model) * limits.state_slots;
}

// How the next token of a row is picked on the device. Fields mean what those of engine::Sampling do.
struct Picking {
  float temperature = 0;
  uint32_t top_k = 0;
  float top_p = 1;
  double log_min_p = -INFINITY;
  float repetition = 1, presence = 0, frequency = 0;
  uint32_t repetition_last = 0;                    // ~0: all
  std::vector<std::pair<uint32_t, float>> biases;  // each token once
  uint64_t seed = 0, picks = 0;                    // picks: how many were made before
  std::vector<uint32_t> text;                      // the tokens so far; may be empty where there are no penalties
  uint32_t prompt = 0;                             // how many of them are the prompt
  bool logprob = false;
  uint32_t top = 0;          // with logprob: how many of the most likely tokens have theirs too
  bool constrained = false;  // which tokens may be picked is said by Backend::allow()

  bool has_penalties() const { return repetition != 1 || presence != 0 || frequency != 0; }
  bool changes_logits() const { return has_penalties() || !biases.empty(); }
};
struct Picked {
  uint32_t id;  // ~0: the logits had nothing to pick from
  float log_probability;
  std::vector<std::pair<uint32_t, float>> top = {};  // Picking::top tokens; fewer if others have a probability of 0
};

using BlockTables = std::vector<std::vector<uint32_t>>;  // per sequence: which blocks hold its positions, in order

// The rows of one step: any mix of sequences, in any lengths. Positions of a sequence ascend; what lies before them is
// in its KV blocks already.
struct Batch {
  std::vector<uint32_t> tokens, positions, sequences;  // one per row; `sequences` names a block table
  BlockTables blocks;                                  // of the KV cache
  // With Limits::window_blocks, of caches of windows: as many blocks as above, or no_block where no row of the batch or
  // of one that follows it sees any of the positions.
  BlockTables window_blocks;
  // Per sequence, of models with recurrent states: the slot of its state, which no other sequence of the batch has. A
  // sequence whose first row has position 0 begins with an empty state, whatever the slot holds; any other continues
  // the state after the position before its first row. The batch leaves the state after its last row there.
  std::vector<uint32_t> slots;
  std::vector<uint32_t> outputs;  // rows that need a next token or logits, ascending
  // One per output: how the device picks its token. Unset: the logits of that row come to the host instead. Empty: the
  // logits of all outputs do.
  std::vector<std::optional<Picking>> picking;
  std::vector<uint32_t> states;  // rows that need their states, ascending
  bool long_text = false;        // its texts are longer than Model::short_text, all of them; otherwise none is
  std::vector<uint32_t> types;   // token types, one per row; empty: the first for all

  // The batch predicts: the model's head for that (NextHead) is computed alone. It has one row per sequence, neither
  // slots nor states, and `after` says which row of the batch before it comes right before each. What it writes to the
  // KV cache is overwritten by the next batch of the sequence that does not predict.
  bool predicts = false;
  std::vector<uint32_t> after;

  // Continues the batch before it: the same sequences, the tokens that it picked, one position further. Nothing is sent
  // to the device, and all other fields are empty, but for `predicts`, which is that of the batch before it. The batch
  // that is followed has one row per sequence, up to Backend::max_followed_rows() of them, of which up to
  // max_followed_changes() have biases or penalties; picks a token for every row; and has KV blocks for all positions
  // to come. It is followed after its allow(), if it needs one, and the batch that follows needs one as well.
  bool follows = false;
};

// Throws std::logic_error unless the block tables of windows are those that the limits ask for.
inline void check_window_blocks(const Batch& batch, const Limits& limits) {
  if (limits.window_blocks == 0) return;
  check(batch.window_blocks.size() == batch.blocks.size(), "a block table of windows for every sequence");
  for (size_t i = 0; i < batch.blocks.size(); ++i) {
    check(batch.window_blocks[i].size() == batch.blocks[i].size(), "as many blocks of windows as of others");
    for (const uint32_t block : batch.window_blocks[i])
      check(block < limits.window_blocks || block == no_block, "blocks of windows");
  }
}

// What a batch gave. Valid until the backend is called again.
struct Result {
  std::span<const std::optional<Picked>> picked;  // one per Batch::picking; unset where that is
  std::span<const float> logits;                  // (outputs without a picking, vocabulary)
  std::span<const float> states;                  // (Batch::states, width); empty: this backend has none
};

// How long a kernel took, for traces.
struct KernelTime {
  std::string kernel, phase;
  int layer;              // -1: none
  double start, seconds;  // on the device's clock
  uint64_t bytes;         // of weights and cache
};

// Where the time of batches went that two backends compute together (split.h), in seconds.
struct SplitTimes {
  uint64_t batches = 0, crossings = 0;
  double host = 0;    // the host's sublayers, and its head
  double launch = 0;  // handing work and rows to the device
  double wait = 0;    // for the device, with the launch of what is waited for
};

// What a cache keeps of texts, in places that have numbers.
enum class KvPart : uint8_t {
  block,   // of the KV cache
  window,  // a block of the caches of windows
  state,   // a slot of recurrent states
};
struct KvPlace {
  KvPart part;
  uint32_t index;
};
struct KvRead {
  KvPlace from;
  std::span<uint8_t> to;
};

// Verbs may return before the device is done.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string describe() const = 0;  // "reference (f32)"

  // A batch that does not follow the one before it drops the results that were not taken. The batch must stay as it is
  // until the last verb, its block tables only until head() is done.
  virtual void begin(const Batch& batch) = 0;
  virtual void embed() = 0;
  // Two verbs for every kind of sublayer. compute() reads the residual stream and leaves its result in scratch: of an
  // attention norm, q, k and v, rotation, KV cache and attention; of a feed-forward norm, gate and up, activation; of a
  // mixture also the router. add() does the rest: last product, norm, and the sum with the residual. A step of AltUp
  // is divided as the backend likes.
  virtual void compute(uint32_t layer, uint32_t sublayer) = 0;
  virtual void add(uint32_t layer, uint32_t sublayer) = 0;
  // Of the rows in Batch::states, what the last layer left and the final norm made of it. Called where there are any.
  // "The last layer" is that before a NextHead's, here and for head(), unless the batch predicts.
  virtual void keep_states() {}
  virtual void head() = 0;  // of the outputs: final norm, logits, and a token for those that have a picking
  // After head(), where a picking is constrained: no token of the batch is picked before. The host can find out which
  // are allowed while the device computes, also of a batch that follows another, after it has read the tokens of that.
  // One per constrained picking, in order: a bit for each token of the vocabulary; an empty one allows all. Copied.
  virtual void allow(std::span<const std::span<const uint32_t>>) {}
  // The result of the oldest batch that still has one; waits for it.
  virtual Result result() = 0;

  virtual bool can_pick(const Picking&) const { return false; }  // whether the device can pick a token in this way
  // Whether a batch of some rows less may compute more rows in a second, because kernels compute rows in groups: then
  // streams can take turns.
  virtual bool computes_rows_in_groups() const { return false; }
  // Batches begun before the oldest result is taken; those after the first follow one another.
  virtual uint32_t max_in_flight() const { return 1; }
  virtual uint32_t max_followed_rows() const { return 0; }  // of a batch that others follow; 0: none can
  virtual uint32_t max_followed_changes() const {
    return 0;
  }  // of these rows, those that change logits before they pick

  // Of backends that compute a part of a model (split.h): the residual stream of all rows, (rows, width), after what
  // was computed so far, valid until the next verb; and a copy of such rows in its place.
  virtual std::span<const float> residual() {
    check(false, "a backend that computes parts of models");
    return {};
  }
  virtual void set_residual(std::span<const float>) { check(false, "a backend that computes parts of models"); }

  // Of the KV cache, in all layers, from the first to the second; between two batches. With Limits::window_blocks, the
  // caches of windows have blocks of their own.
  virtual void copy_block(uint32_t from, uint32_t to) = 0;
  virtual void copy_window_block(uint32_t, uint32_t) { check(false, "a backend with blocks of windows"); }
  // Copies the recurrent states of all layers from the first slot to the second, in order with batches: after every
  // batch begun so far, even if its result is still pending, and before the next one.
  virtual void copy_state(uint32_t, uint32_t) { check(false, "a backend for models with recurrent states"); }
  // What a place keeps, over all layers, as bytes that any other place of that part can get, of this backend or of one
  // with an equal name of their layout, model, and limits but for the numbers of places. kv_layout() is empty, and
  // kv_part_bytes() 0, where the backend has no such bytes.
  virtual std::string kv_layout() const { return {}; }
  virtual uint64_t kv_part_bytes(KvPart) const { return 0; }
  // In order with batches, as copy_state(). read_kv() waits for the bytes; those of write_kv() are copied. Spans are
  // kv_part_bytes() long.
  virtual void read_kv(std::span<const KvRead>) { check(false, "a backend with bytes of its cache"); }
  virtual void write_kv(KvPlace, std::span<const uint8_t>) { check(false, "a backend with bytes of its cache"); }
  // False after a fault that nothing can be computed after.
  virtual bool usable() const { return true; }
  // Of the kernels since it was last asked, where the backend was told to keep them.
  virtual std::vector<KernelTime> kernel_times() { return {}; }
  // Since it was last asked, of a backend made of two.
  virtual std::optional<SplitTimes> split_times() { return {}; }
};

inline uint32_t places_of(KvPart part, const Limits& limits) {
  return part == KvPart::block ? limits.kv_blocks : part == KvPart::window ? limits.window_blocks : limits.state_slots;
}
// Throws std::logic_error unless the place is one of the limits, and the bytes are those of its part.
inline void check_kv_span(const Backend& backend, const Limits& limits, KvPlace place, size_t bytes) {
  check(place.index < places_of(place.part, limits), "a place of the cache");
  check(bytes == backend.kv_part_bytes(place.part), "as many bytes as the place has");
}

// A layer of a forward pass: the order of its verbs, for a backend or for what a backend records.
void run_layer(const Model& model, uint32_t layer, auto& verbs) {
  const bool parallel = model.layers[layer].parallel;
  const auto count = static_cast<uint32_t>(model.layers[layer].sublayers.size());
  for (uint32_t i = 0; i < count; ++i) {
    verbs.compute(layer, i);
    if (!parallel) verbs.add(layer, i);
  }
  for (uint32_t i = 0; parallel && i < count; ++i) verbs.add(layer, i);
}
void run_layers(const Model& model, auto& verbs) {
  for (uint32_t i = 0; i < model.layers.size(); ++i) run_layer(model, i, verbs);
}
// The layer of the model's head for multi-token prediction alone.
void run_next_head(const Model& model, auto& verbs) { run_layer(model, uint32_t(model.layers.size()) - 1, verbs); }

}  // namespace heddle::model
