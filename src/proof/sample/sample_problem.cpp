#include "proof/sample/sample_problem.h"

#include <array>
#include <cmath>
#include <set>

namespace heddle::proof {

using kernels::SampleRow;

const char* text(Logits l) {
  switch (l) {
    case Logits::normal:
      return "normal";
    case Logits::equal:
      return "equal";
    case Logits::few:  // four different values: cuts fall between equals
      return "few";
    case Logits::near:  // differ in their last bits only, around 0 and far from it
      return "near";
    case Logits::peaked:  // one has nearly all the probability
      return "peaked";
    case Logits::low:  // -infinity among them
      return "low";
    case Logits::zeros:  // of both signs, and the smallest numbers
      return "zeros";
    case Logits::bad:  // NaN or +infinity in most rows
      return "bad";
    case Logits::nothing:  // -infinity only
      return "nothing";
  }
  return "?";
}

std::vector<float> make_logits(Random& random, uint32_t rows, uint32_t vocab, Logits kind) {
  std::vector<float> x = random.normals(size_t(rows) * vocab, 3);
  for (float& v : x) {
    const uint32_t r = random.below(4);
    if (kind == Logits::equal) v = -7.25f;
    if (kind == Logits::few) v = float(r) * 0.5f;
    if (kind == Logits::near) v = random.below(2) ? 20 + float(r) * 0x1p-19f : float(r + random.below(9)) * 0x1p-149f;
    if (kind == Logits::low && r < 2) v = -INFINITY;
    if (kind == Logits::zeros) v = r < 2 ? 0.0f : r == 2 ? -0.0f : 0x1p-149f * float(random.below(3));
    if (kind == Logits::zeros && random.below(2)) v = -std::abs(v);
    if (kind == Logits::nothing) v = -INFINITY;
  }
  for (size_t r = 0; r < rows; ++r) {
    float& one = x[r * vocab + random.below(vocab)];
    if (kind == Logits::peaked) one = 40;
    if (kind == Logits::bad && r % 3) one = r % 3 == 1 ? INFINITY : NAN;
  }
  return x;
}

std::vector<SampleRow> all_kinds(Random& random, uint32_t rows) {
  const double min_p = std::log(0.05);
  const std::vector<SampleRow> list{{.temperature = 1},
                                    {.temperature = 0},
                                    {.temperature = 0.8f, .top_k = 40},
                                    {.temperature = 1.3f, .top_p = 0.9f},
                                    {.temperature = 1, .log_min_p = min_p},
                                    {.temperature = 0.7f, .top_k = 50, .top_p = 0.95f, .log_min_p = min_p},
                                    {.temperature = 5, .top_k = 1},
                                    {.temperature = 2, .top_p = 0},
                                    {.temperature = 1, .log_min_p = 0},
                                    {.temperature = 100, .top_k = 7, .top_p = 0.5f},
                                    {.temperature = 0x1p-149f, .top_p = 0.999f},
                                    {.temperature = 30, .top_p = 0.9999999f},
                                    {.temperature = 1, .top_k = 100000, .top_p = 0.3f},
                                    {.temperature = 1.5f, .top_k = 300, .top_p = 0.6f},
                                    {.temperature = 2, .top_k = 30, .top_p = 0.999999f},
                                    {.temperature = -1, .top_k = 3}};
  std::vector<SampleRow> params;
  for (uint32_t r = 0; r < rows; ++r) {
    params.push_back(list[r % list.size()]);
    params.back().seed = random.bits();
    params.back().step = random.below(3) ? random.below(5000) : random.bits();
  }
  return params;
}

void add_masks(Random& random, std::vector<SampleRow>& params, uint32_t vocab, Past& past) {
  const uint32_t words = (vocab + 31) / 32;
  uint32_t masks = 1;  // the first belongs to no row
  past.masks.assign(words, 0);
  for (size_t r = params.size(); r-- > 0;) {
    if (r % 3 == 2) continue;
    params[r].mask = masks++;
    const uint32_t forbidden = std::array{90u, 3u, 100u}[random.below(3)];
    for (uint32_t w = 0; w < words; ++w) {
      uint32_t word = 0;
      for (uint32_t bit = 0; bit < 32; ++bit) word |= uint32_t(random.below(100) >= forbidden) << bit;
      past.masks.push_back(word);
    }
    const uint32_t sure = random.below(vocab);
    if (r % 7 != 3) past.masks[params[r].mask * words + sure / 32] |= 1u << sure % 32;
  }
}

std::vector<float> allowed_logits(std::span<const float> logits, const SampleRow& row, const Past& past) {
  std::vector<float> allowed(logits.begin(), logits.end());
  if (row.mask == SampleRow::no_mask) return allowed;
  const size_t words = (logits.size() + 31) / 32;
  for (size_t i = 0; i < allowed.size(); ++i)
    if (!(past.masks[row.mask * words + i / 32] >> i % 32 & 1) && allowed[i] < INFINITY) allowed[i] = -INFINITY;
  return allowed;
}

Past make_past(Random& random, std::vector<SampleRow>& params, uint32_t vocab, uint32_t capacity) {
  Past past{.texts = std::vector<std::vector<uint32_t>>(params.size()), .capacity = capacity};
  for (size_t r = params.size(); capacity && r-- > 0;) {
    SampleRow& p = params[r];
    if (r % 5 == 4) continue;  // nothing to change
    p.place = past.places++;   // not the number of the row
    if (r % 4 != 1) p.repetition = random.uniform(0.8f, 2);
    if (r % 4 != 2) {
      p.presence = random.uniform(-1, 2);
      p.frequency = random.uniform(-0.5f, 0.5f);
    }
    p.repetition_last = std::array{0u, 1u, 64u, 1000u, ~0u}[random.below(5)];
    p.length = random.below(capacity + 1);
    p.prompt = random.below(p.length + 1);
    if (p.length == capacity && p.length > 1) --p.length;  // room for what is picked
    for (uint32_t i = 0; i < p.length; ++i)
      past.texts[r].push_back(random.below(2) ? random.below(vocab) : random.below(vocab) % 7);
    if (r % 3) continue;
    p.first_bias = uint32_t(past.biases.size());
    std::set<uint32_t> ids;  // some beyond the vocabulary
    for (uint32_t i = random.below(50); i > 0; --i) ids.insert(random.below(vocab + 3));
    for (const uint32_t id : ids) {
      past.biases.push_back({id, random.below(5) == 0 ? -INFINITY : random.uniform(-9, 9)});
      ++p.biases;
    }
  }
  return past;
}

}  // namespace heddle::proof
