// Cases of stream_read, and its timing: the limit of the memory.
#include "kernels/product/stream_read.h"
#include "proof/bench.h"

namespace heddle::proof {

namespace {

using kernels::StreamRead;

Case stream_read(StreamRead spec, uint64_t words, uint32_t blocks) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<uint32_t> data(words);
    for (auto& w : data) w = uint32_t(random.bits());
    const StreamRead::Args args{
        .sum = m.put(std::vector<uint32_t>{7}), .data = m.put(data), .words = words, .blocks = blocks};
    m.launch(spec, args);
    uint32_t want = 7;
    for (uint32_t w : data) want += w;
    check.equal("sum", m.get(args.sum, 1), {want});
  };
  return {"stream_read", fmt::format("{} words={} blocks={}", field_text(spec), words, blocks), "sm_75", run};
}

Bench read() {
  constexpr uint64_t words = uint64_t(1) << 28;
  auto prepare = [](Machine& m, Random&) -> Bench::Round {
    const kernels::StreamRead::Args args{.sum = m.put(std::vector<uint32_t>{0}),
                                         .data = m.poisoned<uint32_t>(words),
                                         .words = words,
                                         .blocks = m.processors() * 4};
    return [=](Machine& now, uint32_t) { now.launch(kernels::StreamRead{}, args); };
  };
  return {"stream_read", "1 GiB", "sm_75", double(words) * 4, 0, prepare};
}

}  // namespace

void add_stream_read_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(stream_read({.threads = 64, .loads = 4}, 4096, 3));
  if (sweep == Sweep::quick) return;
  for (uint64_t words : {0, 4, 8, 1020, 16384, 16388}) cases.push_back(stream_read({.threads = 96}, words, 2));
  for (uint32_t loads : {1, 2, 8}) cases.push_back(stream_read({.threads = 32, .loads = loads}, 2052, 5));
  if (sweep == Sweep::normal) return;
  cases.push_back(stream_read({}, uint64_t(1) << 26, 132 * 4));
}

void add_stream_read_benches(std::vector<Bench>& all) { all.push_back(read()); }

}  // namespace heddle::proof
