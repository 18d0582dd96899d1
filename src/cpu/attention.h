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

class Attend {
 public:
  Attend(const Isa& isa, Team& team, const model::Limits& limits) : isa_(isa), team_(team), limits_(limits) {}

  // out row i = attention of q row i (heads, head) over the cache.
  void run(const model::Batch& batch, const model::Attention& attention, const KvCache& cache, const Rows& q,
           Rows& out);

 private:
  struct Item {  // some rows of a sequence, or one span of one row
    uint32_t row, rows, kv_head;
    uint32_t first_span, spans;
    uint64_t partial;  // where its state goes, if it is one of several spans
  };
  struct Scratch {
    std::vector<float> floats, out, span_out;
    std::vector<Softmax> softmax, span_softmax;
    std::vector<AttendRow> rows;
  };
  void walk(const model::Batch& batch, const model::Attention& attention, const KvCache& cache, const Rows& q,
            const Item& item, Scratch& scratch) const;
  uint32_t span_blocks() const;
  uint32_t first_span(const model::Attention& attention, uint32_t position) const;

  const Isa& isa_;
  Team& team_;
  model::Limits limits_;
  std::vector<Item> items_;
  std::vector<Scratch> scratch_;  // of each thread
  std::vector<float> partial_out_;
  std::vector<Softmax> partial_;
};

}  // namespace heddle::cpu
