// Attention over the KV cache.
//
// Positions of a sequence are taken in spans, always the same ones: each span is a softmax of its own, and the spans
// are merged in order. So a row's result is the same whether one thread walks all spans or several share them.
#pragma once
#include <vector>

#include "cpu/kv_cache.h"
#include "cpu/rows.h"
#include "cpu/team.h"

namespace heddle::cpu {

// Where the results of heads lie: a head of a row is at data + row * of_row + head * of_head.
struct HeadResults {
  float* data;
  uint64_t of_row, of_head;
};

class Attend {
 public:
  Attend(const Isa& isa, Team& team, const model::Limits& limits) : isa_(isa), team_(team), limits_(limits) {}

  // The attention of the rows of q (heads, head) over the cache.
  // `tables`: those of the batch that the cache has.
  void run(const model::Batch& batch, const model::BlockTables& tables, const model::Attention& attention,
           const KvCache& cache, const Rows& q, const HeadResults& out);

  // Bytes of scratch for all threads, at most.
  static uint64_t scratch_bytes(const model::Attention& attention, const model::Limits& limits, uint32_t threads);

 private:
  struct Seen {  // the positions that a row sees
    uint32_t first, last;
  };
  struct Item {  // some rows of a sequence, with some heads that share a kv head
    uint32_t row, rows, head, heads;
    uint32_t first_span, spans;
    uint64_t partial;  // where its state goes, if its spans are items of their own
    uint64_t states() const { return uint64_t(rows) * heads; }
  };
  struct Scratch {
    std::vector<float> floats, out, span_out;
    std::vector<Softmax> softmax, span_softmax;
    std::vector<AttendRow> rows;
  };
  void find_seen(const model::Batch& batch, const model::Attention& attention);
  void plan(const model::Batch& batch, const model::Attention& attention);
  // f(item, its state) for each item, on several threads; or each span of all items first.
  template <class Finish>
  void run_whole(const model::Batch& batch, const model::BlockTables& tables, const KvCache& cache, const Rows& q,
                 Finish&& finish);
  template <class Finish>
  void run_by_span(const model::Batch& batch, const model::BlockTables& tables, const KvCache& cache, const Rows& q,
                   Finish&& finish);
  void walk(const model::Batch& batch, const model::BlockTables& tables, const KvCache& cache, const Rows& q,
            const Item& item, Scratch& scratch) const;

  const Isa& isa_;
  Team& team_;
  model::Limits limits_;
  std::vector<Seen> seen_;      // of each row
  std::vector<uint32_t> ends_;  // of each sequence: its last position
  std::vector<Item> items_, pieces_;
  std::vector<Scratch> scratch_;  // of each thread
  std::vector<float> partial_out_;
  std::vector<Softmax> partial_;
};

}  // namespace heddle::cpu
