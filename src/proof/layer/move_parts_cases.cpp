// Cases of move_parts: parts of several sizes, each with places before and behind the one that is moved.
#include "kernels/layer/move_parts.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::MoveParts;
using kernels::PartPlace;

Case move_parts(MoveParts spec, std::vector<uint32_t> words, uint32_t index) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t indices = index + 2;
    const auto some = [&](size_t count) {
      std::vector<uint32_t> values(count);
      for (uint32_t& value : values) value = uint32_t(random.bits());
      return values;
    };
    std::vector<uint64_t> table;
    std::vector<ptx::DevicePtr<uint32_t>> buffers;
    std::vector<std::vector<uint32_t>> before;
    uint32_t offset = 0, largest = 0;  // in words
    for (const uint32_t count : words) {
      before.push_back(some(size_t(count) * indices));
      buffers.push_back(m.put(before.back()));
      table.insert(table.end(), {buffers.back().address, count * 4ull, offset * 4ull});
      offset += count;
      largest = std::max(largest, count);
    }
    const std::vector<uint32_t> given = some(offset);
    const MoveParts::Args args{.places = m.put(table),
                               .host = m.put(given),
                               .count = uint32_t(words.size()),
                               .index = index,
                               .largest = largest * 4};
    m.launch(spec, args);
    std::vector<uint32_t> host = given;
    for (size_t part = 0, at = 0; part < words.size(); at += words[part++]) {
      const auto place = before[part].begin() + long(words[part] * index);
      if (spec.to_host)
        std::copy(place, place + words[part], host.begin() + long(at));
      else
        std::copy(given.begin() + long(at), given.begin() + long(at + words[part]), place);
      check.equal("the cache", m.get(buffers[part], before[part].size()), before[part]);
    }
    check.equal("the host", m.get(args.host, host.size()), host);
  };
  std::string sizes;
  for (const uint32_t count : words) sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", count);
  return {"move_parts", fmt::format("{} words={} index={}", field_text(spec), sizes, index), target_of(spec), run};
}

}  // namespace

void add_move_parts_cases(Sweep sweep, std::vector<Case>& cases) {
  for (const uint32_t to_host : {0u, 1u}) {
    cases.push_back(move_parts({.threads = 32, .to_host = to_host}, {4, 600, 1024}, 1));
    cases.push_back(move_parts({.threads = 64, .vec = 1, .to_host = to_host}, {1, 255, 257, 33}, 0));
    cases.push_back(move_parts({.to_host = to_host, .chained = 1}, {64}, 3));
    if (sweep == Sweep::full) cases.push_back(move_parts({.to_host = to_host}, std::vector<uint32_t>(64, 16384), 2));
  }
}

}  // namespace heddle::proof
