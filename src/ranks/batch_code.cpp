// A sequence of a batch names the sequence of the last batch that it continues. Its block tables are written as what
// differs from that one's, its position as the difference to the one that is due, its picking as "the same, one later".
#include "ranks/batch_code.h"

#include <algorithm>
#include <cmath>

namespace heddle::ranks {
namespace {

using model::Batch;
using model::Picking;

enum BatchFlag : uint8_t { follows = 1, predicts = 2, long_text = 4 };
constexpr uint32_t taken_shift = 3, max_taken = 31;

enum ColumnFlag : uint8_t { with_windows = 1, with_slots = 2, with_picking = 4, with_types = 8, with_after = 16 };

constexpr uint32_t no_base = ~0u;

size_t common_beginning(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  return size_t(std::mismatch(a.begin(), a.begin() + ptrdiff_t(std::min(a.size(), b.size())), b.begin()).first -
                a.begin());
}

// For each sequence, the one of the last batch with the longest common beginning; most often the next in order.
std::vector<uint32_t> bases_of(const model::BlockTables& tables, const model::BlockTables& last) {
  std::vector<uint32_t> bases;
  uint32_t due = 0;
  for (const std::vector<uint32_t>& table : tables) {
    uint32_t best = no_base;
    size_t longest = 0;
    const auto consider = [&](uint32_t base) {
      const size_t common = common_beginning(table, last[base]);
      if (common > longest) {
        longest = common;
        best = base;
      }
      return common + 1 >= table.size() && common == last[base].size();
    };
    if (due >= last.size() || !consider(due))
      for (uint32_t base = 0; base < last.size(); ++base)
        if (consider(base)) break;
    if (best != no_base) due = best + 1;
    bases.push_back(best);
  }
  return bases;
}

// How much longer than its base it is, then runs of entries that differ: how many are equal before (of the first run
// one more, because 0 says that there is none), how many differ, these. All after the last run are equal.
void write_table(ByteWriter& to, const std::vector<uint32_t>& table, const std::vector<uint32_t>& base) {
  to.difference(table.size(), base.size());
  const auto differs = [&](size_t i) { return i >= base.size() || table[i] != base[i]; };
  for (size_t i = 0; i < table.size();) {
    size_t first = i;
    while (first < table.size() && !differs(first)) ++first;
    if (first == table.size()) break;
    to.number(first - i + 1);
    i = first;
    while (first < table.size() && differs(first)) ++first;
    to.number(first - i);
    for (; i < first; ++i) to.difference(table[i], i ? table[i - 1] : 0);
  }
  to.number(0);
}
void read_table(ByteReader& from, std::vector<uint32_t>& table, const std::vector<uint32_t>& base, uint64_t max) {
  const uint64_t size = base.size() + uint64_t(from_zigzag(from.number()));
  if (size > max || size > base.size() + from.left())
    throw Error("message of a rank: blocks of a table: expected up to {}, found {}", max, size);
  table.assign(base.begin(), base.begin() + ptrdiff_t(std::min<uint64_t>(base.size(), size)));
  size_t known = table.size();  // of what is longer than the base, all must be there
  table.resize(size);
  size_t i = 0;
  while (const uint64_t equal_and_one = from.number()) {
    const uint64_t equal = equal_and_one - 1, differing = from.number();
    if (equal > size - i || differing > size - i - equal || differing == 0 || i + equal > known)
      throw Error("message of a rank: blocks of a table: expected up to {}, found {}", size - i, equal);
    i += equal;
    for (uint64_t end = i + differing; i < end; ++i) table[i] = from.difference(i ? table[i - 1] : 0);
    known = std::max(known, i);
  }
  if (known < size) throw Error("message of a rank: blocks of a table: expected {}, found {}", size, known);
}

// A column with one number per row or per sequence, as differences to what is expected.
void write_column(ByteWriter& to, const std::vector<uint32_t>& values, auto&& expected) {
  to.runs(values.size(), [&](size_t i) { return zigzag(int64_t(values[i]) - int64_t(expected(i))); });
}
void read_column(ByteReader& from, std::vector<uint32_t>& values, size_t count, auto&& expected) {
  values.resize(count);
  from.runs(count, [&](size_t i, uint64_t value) {
    values[i] = uint32_t(uint64_t(expected(i)) + uint64_t(from_zigzag(value)));
  });
}
// Of ascending rows.
auto one_more(const std::vector<uint32_t>& values) {
  return [&values](size_t i) { return i ? values[i - 1] + 1 : 0; };
}

// What is written of a picking: the fields that stay in a sequence, then those that change with each token.
bool same_but_progress(const Picking& a, const Picking& b) {
  const auto bits = [](auto x, auto y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  return bits(a.temperature, b.temperature) && a.top_k == b.top_k && bits(a.top_p, b.top_p) &&
         bits(a.log_min_p, b.log_min_p) && bits(a.repetition, b.repetition) && bits(a.presence, b.presence) &&
         bits(a.frequency, b.frequency) && a.repetition_last == b.repetition_last && a.seed == b.seed &&
         a.prompt == b.prompt && a.logprob == b.logprob && a.top == b.top && a.constrained == b.constrained &&
         a.biases.size() == b.biases.size() &&
         std::equal(a.biases.begin(), a.biases.end(), b.biases.begin(),
                    [&](const auto& x, const auto& y) { return x.first == y.first && bits(x.second, y.second); });
}
void write_fields(ByteWriter& to, const Picking& p) {
  for (const float value : {p.temperature, p.top_p, p.repetition, p.presence, p.frequency}) to.raw(value);
  to.raw(p.log_min_p);
  to.raw(p.seed);
  for (const uint32_t value : {p.top_k, p.repetition_last, p.prompt, p.top}) to.number(value);
  to.number(uint64_t(p.logprob) | uint64_t(p.constrained) << 1);
  to.number(p.biases.size());
  for (const auto& [id, bias] : p.biases) {
    to.number(id);
    to.raw(bias);
  }
}
void read_fields(ByteReader& from, Picking& p, uint64_t max) {
  for (float* value : {&p.temperature, &p.top_p, &p.repetition, &p.presence, &p.frequency}) *value = from.raw<float>();
  p.log_min_p = from.raw<double>();
  p.seed = from.raw<uint64_t>();
  for (uint32_t* value : {&p.top_k, &p.repetition_last, &p.prompt, &p.top}) *value = from.number32();
  const uint64_t flags = from.number(3, "flags of a picking");
  p.logprob = flags & 1;
  p.constrained = flags & 2;
  p.biases.resize(from.number(std::min<uint64_t>(max, from.left()), "biases"));
  for (auto& [id, bias] : p.biases) {
    id = from.number32();
    bias = from.raw<float>();
  }
}
enum PickingCode : uint8_t { unset = 0, as_before = 1, whole = 2 };
void write_picking(ByteWriter& to, const std::optional<Picking>& picking, const std::optional<Picking>& before) {
  if (!picking) return to.number(unset);
  const bool again = before && same_but_progress(*picking, *before);
  to.number(again ? as_before : whole);
  if (!again) write_fields(to, *picking);
  to.difference(picking->picks, again ? before->picks + 1 : 0);
  static const std::vector<uint32_t> nothing;
  const std::vector<uint32_t>& text = again ? before->text : nothing;
  const size_t kept = common_beginning(picking->text, text);
  to.number(text.size() - kept);
  to.number(picking->text.size() - kept);
  for (size_t i = kept; i < picking->text.size(); ++i) to.number(picking->text[i]);
}
void read_picking(ByteReader& from, std::optional<Picking>& picking, const std::optional<Picking>& before,
                  uint64_t max) {
  const uint64_t code = from.number(whole, "a picking");
  if (code == unset) return picking.reset();
  if (code == as_before && !before) throw Error("message of a rank: a picking as before, where there was none");
  Picking p;
  if (code == as_before)
    p = *before;
  else
    read_fields(from, p, max);
  p.picks = (code == as_before ? before->picks + 1 : 0) + uint64_t(from_zigzag(from.number()));
  p.text.resize(p.text.size() - from.number(p.text.size(), "tokens that go"));
  const uint64_t more = from.number(std::min(max, uint64_t(from.left())), "tokens of a text");
  if (p.text.size() + more > max) throw Error("message of a rank: expected a text of up to {} tokens", max);
  for (uint64_t i = 0; i < more; ++i) p.text.push_back(from.number32());
  picking = std::move(p);
}

// Walks through the sequences and rows as both sides do: what is expected follows from what was written before.
struct Expected {
  const LastBatch& last;
  const std::vector<uint32_t>& bases;
  std::vector<uint32_t> next;                    // by sequence
  std::vector<std::optional<Picking>> pickings;  // by sequence

  Expected(const LastBatch& of, const std::vector<uint32_t>& with) : last(of), bases(with) {
    for (const uint32_t base : bases) {
      next.push_back(base == no_base ? 0 : last.next[base]);
      pickings.push_back(base == no_base ? std::nullopt : last.pickings[base]);
    }
  }
  uint32_t slot(size_t sequence) const {
    const uint32_t base = bases[sequence];
    return base < last.slots.size() ? last.slots[base] : 0;
  }
};

// What the next batch is written against. `batch` follows none.
void remember(LastBatch& last, const Batch& batch, Expected&& expected) {
  last.blocks = batch.blocks;
  last.window_blocks = batch.window_blocks;
  last.slots = batch.slots;
  last.next = std::move(expected.next);
  last.pickings = std::move(expected.pickings);
  last.predicts = batch.predicts;
}
void remember_following(LastBatch& last) {
  for (uint32_t& position : last.next) ++position;
  for (std::optional<Picking>& picking : last.pickings)
    if (picking) ++picking->picks;
}

uint32_t sequence_of(const Batch& batch, size_t row) {
  check(row < batch.sequences.size() && batch.sequences[row] < batch.blocks.size(), "a sequence of the batch");
  return batch.sequences[row];
}

}  // namespace

std::span<const uint8_t> BatchEncoder::encode(const Batch& batch, uint32_t taken) {
  check(taken <= max_taken, "few results are taken between two batches");
  bytes_.clear();
  ByteWriter to(bytes_);
  to.raw(uint8_t((batch.follows ? follows : 0) | (batch.predicts ? predicts : 0) | (batch.long_text ? long_text : 0) |
                 taken << taken_shift));
  if (batch.follows) {
    remember_following(last_);
    return bytes_;
  }
  const size_t rows = batch.tokens.size(), sequences = batch.blocks.size();
  check(batch.positions.size() == rows && batch.sequences.size() == rows, "a position and a sequence for every row");
  check((batch.window_blocks.empty() || batch.window_blocks.size() == sequences) &&
            (batch.slots.empty() || batch.slots.size() == sequences) &&
            (batch.picking.empty() || batch.picking.size() == batch.outputs.size()) &&
            (batch.types.empty() || batch.types.size() == rows),
        "columns of a batch");
  to.raw(uint8_t((batch.window_blocks.empty() ? 0 : with_windows) | (batch.slots.empty() ? 0 : with_slots) |
                 (batch.picking.empty() ? 0 : with_picking) | (batch.types.empty() ? 0 : with_types) |
                 (batch.after.empty() ? 0 : with_after)));
  for (const size_t count : {rows, sequences, batch.outputs.size(), batch.states.size(), batch.after.size()})
    to.number(count);

  const std::vector<uint32_t> bases = bases_of(batch.blocks, last_.blocks);
  Expected expected(last_, bases);
  to.runs(sequences, [&](size_t i) {
    const uint32_t due = i == 0 ? 0 : bases[i - 1] + 1;  // no_base + 1 is 0
    return zigzag(int32_t(bases[i] - due));
  });
  static const std::vector<uint32_t> nothing;
  for (size_t i = 0; i < sequences; ++i) {
    const uint32_t base = bases[i];
    write_table(to, batch.blocks[i], base == no_base ? nothing : last_.blocks[base]);
    if (!batch.window_blocks.empty())
      write_table(to, batch.window_blocks[i], base < last_.window_blocks.size() ? last_.window_blocks[base] : nothing);
  }
  if (!batch.slots.empty()) write_column(to, batch.slots, [&](size_t i) { return expected.slot(i); });
  for (const uint32_t token : batch.tokens) to.number(token);
  write_column(to, batch.sequences, [&](size_t i) { return i ? batch.sequences[i - 1] : 0; });
  std::vector<uint64_t> jumps(rows);  // of positions
  for (size_t i = 0; i < rows; ++i) {
    uint32_t& next = expected.next[sequence_of(batch, i)];
    jumps[i] = zigzag(int32_t(batch.positions[i] - next));
    next = batch.positions[i] + 1;
  }
  to.runs(rows, [&](size_t i) { return jumps[i]; });
  write_column(to, batch.outputs, one_more(batch.outputs));
  write_column(to, batch.states, one_more(batch.states));
  if (!batch.types.empty()) write_column(to, batch.types, [&](size_t i) { return i ? batch.types[i - 1] : 0; });
  write_column(to, batch.after, one_more(batch.after));
  for (size_t i = 0; i < batch.picking.size(); ++i) {
    std::optional<Picking>& before = expected.pickings[sequence_of(batch, batch.outputs[i])];
    write_picking(to, batch.picking[i], before);
    before = batch.picking[i];
  }
  remember(last_, batch, std::move(expected));
  return bytes_;
}

const Batch& BatchDecoder::decode(std::span<const uint8_t> bytes, uint32_t& taken) {
  ByteReader from(bytes);
  const uint8_t flags = from.raw<uint8_t>();
  taken = flags >> taken_shift;
  if (flags & follows) {
    from.expect_end();
    remember_following(last_);
    batch_ = {.predicts = bool(flags & predicts), .follows = true};
    return batch_;
  }
  batch_ = {};
  Batch& batch = batch_;
  batch.predicts = flags & predicts;
  batch.long_text = flags & long_text;
  const uint8_t columns = from.raw<uint8_t>();
  const size_t rows = from.number(bounds_.rows, "rows"), sequences = from.number(bounds_.rows, "sequences"),
               outputs = from.number(rows, "outputs"), states = from.number(rows, "states"),
               after = from.number(sequences, "rows that come before");
  if (rows + sequences > from.left())  // each of them takes a byte at least
    throw Error("message of a rank: {} rows of {} sequences in {} bytes", rows, sequences, from.left());
  std::vector<uint32_t> bases(sequences);
  from.runs(sequences, [&](size_t i, uint64_t value) {
    bases[i] = uint32_t((i == 0 ? 0 : bases[i - 1] + 1) + uint64_t(from_zigzag(value)));
    if (bases[i] != no_base && bases[i] >= last_.blocks.size())
      throw Error("message of a rank: sequence {} continues number {} of {}", i, bases[i], last_.blocks.size());
  });
  Expected expected(last_, bases);
  static const std::vector<uint32_t> nothing;
  const bool windows = columns & with_windows;
  batch.blocks.resize(sequences);
  if (windows) batch.window_blocks.resize(sequences);
  for (size_t i = 0; i < sequences; ++i) {
    const uint32_t base = bases[i];
    read_table(from, batch.blocks[i], base == no_base ? nothing : last_.blocks[base], bounds_.blocks);
    if (windows)
      read_table(from, batch.window_blocks[i], base < last_.window_blocks.size() ? last_.window_blocks[base] : nothing,
                 bounds_.blocks);
  }
  if (columns & with_slots) read_column(from, batch.slots, sequences, [&](size_t i) { return expected.slot(i); });
  for (size_t i = 0; i < rows; ++i) batch.tokens.push_back(from.number32());
  read_column(from, batch.sequences, rows, [&](size_t i) { return i ? batch.sequences[i - 1] : 0; });
  for (const uint32_t sequence : batch.sequences)
    if (sequence >= sequences) throw Error("message of a rank: sequence {} of {}", sequence, sequences);
  batch.positions.resize(rows);
  from.runs(rows, [&](size_t i, uint64_t value) {
    uint32_t& next = expected.next[batch.sequences[i]];
    batch.positions[i] = uint32_t(next + uint64_t(from_zigzag(value)));
    next = batch.positions[i] + 1;
  });
  read_column(from, batch.outputs, outputs, one_more(batch.outputs));
  read_column(from, batch.states, states, one_more(batch.states));
  for (const std::vector<uint32_t>* named : {&batch.outputs, &batch.states})
    for (const uint32_t row : *named)
      if (row >= rows) throw Error("message of a rank: row {} of {}", row, rows);
  if (columns & with_types) read_column(from, batch.types, rows, [&](size_t i) { return i ? batch.types[i - 1] : 0; });
  read_column(from, batch.after, after, one_more(batch.after));
  if (columns & with_picking) {
    batch.picking.resize(outputs);
    for (size_t i = 0; i < outputs; ++i) {
      std::optional<Picking>& before = expected.pickings[batch.sequences[batch.outputs[i]]];
      read_picking(from, batch.picking[i], before, bounds_.text);
      before = batch.picking[i];
    }
  }
  from.expect_end();
  remember(last_, batch, std::move(expected));
  return batch_;
}

void encode_masks(std::span<const std::span<const uint32_t>> masks, Bytes& bytes) {
  ByteWriter to(bytes);
  to.number(masks.size());
  for (const std::span<const uint32_t> mask : masks) {
    to.number(mask.size());
    to.runs(mask.size(), [&](size_t i) { return mask[i] + 1u; });  // all ones, the most frequent, is one byte
  }
}

std::vector<std::vector<uint32_t>> decode_masks(std::span<const uint8_t> bytes, uint64_t max_masks,
                                                uint64_t max_words) {
  ByteReader from(bytes);
  std::vector<std::vector<uint32_t>> masks(from.number(std::min<uint64_t>(max_masks, from.left()), "masks"));
  for (std::vector<uint32_t>& mask : masks) {
    mask.resize(from.number(max_words, "words of a mask"));
    from.runs(mask.size(), [&](size_t i, uint64_t value) { mask[i] = uint32_t(value) - 1; });
  }
  from.expect_end();
  return masks;
}

}  // namespace heddle::ranks
