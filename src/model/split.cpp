#include "model/split.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace heddle::model {
namespace {

bool is_in(Place place, Place part) { return place == part || place == Place::visiting; }

void check_placement(const Model& model, const Placement& placement) {
  check(placement.sublayers.size() == model.layers.size() && placement.head != Place::visiting,
        "a place for every layer and for the head");
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const std::vector<Place>& places = placement.sublayers[i];
    check(places.size() == model.layers[i].sublayers.size(), "a place for every sublayer");
    const bool on_host = std::all_of(places.begin(), places.end(), [](Place place) { return place == Place::host; });
    if (const std::string_view what = reads_beside_residual(model.layers[i]); !on_host && !what.empty())
      throw Error("{}: this model has {}: it cannot be divided between a GPU and the CPU", model.name, what);
    for (const Place place : places)
      check(!model.layers[i].parallel || (place == places[0] && place != Place::visiting),
            "one place for the sublayers of a parallel layer");
  }
}

// Adds the time of its scope.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(start_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

class Split : public Backend {
 public:
  Split(const Model& model, const Placement& placement, const MakeBackend& device, const MakeBackend& host,
        const SplitOptions& options)
      : placement_(placement),
        max_rows_(options.max_rows),
        visit_rows_(options.visit_rows),
        parts_{{part_of(model, placement, Place::device)}, {part_of(model, placement, Place::host)}} {
    for (const std::vector<Place>& places : placement.sublayers) {
      std::vector<Indices>& layer = indices_.emplace_back();
      Indices next{};
      for (const Place place : places) {
        layer.push_back(next);
        next.device += is_in(place, Place::device);
        next.host += is_in(place, Place::host);
      }
    }
    parts_[0].backend = device(parts_[0].model);
    parts_[1].backend = host(parts_[1].model);
    if (visit_rows_ == 0) measure_visits();
  }

  std::string describe() const override {
    std::string text = fmt::format("{}, with {}", on(Place::device).describe(), on(Place::host).describe());
    if (visit_rows_ <= max_rows_) text += fmt::format("; weights visit the device for {} rows or more", visit_rows_);
    return text;
  }

  void begin(const Batch& batch) override {
    check(!batch.follows, "a batch that follows no other");
    visits_ = batch.tokens.size() >= visit_rows_;
    ++times_.batches;
    for (const Place place : {Place::device, Place::host}) {
      Side& part = part_at(place);
      part.batch = batch;
      if (place != placement_.head) {
        part.batch.outputs.clear();
        part.batch.picking.clear();
        part.batch.states.clear();
      }
      timed(place, [&] { part.backend->begin(part.batch); });
    }
  }
  void embed() override {
    residual_at_ = Place::host;
    timed(Place::host, [&] { on(Place::host).embed(); });
  }
  void compute(uint32_t layer, uint32_t sublayer) override {
    const Place place = place_of(layer, sublayer);
    move_residual(place);
    timed(place, [&] { on(place).compute(layer, index_of(layer, sublayer, place)); });
  }
  void add(uint32_t layer, uint32_t sublayer) override {
    const Place place = place_of(layer, sublayer);
    timed(place, [&] { on(place).add(layer, index_of(layer, sublayer, place)); });
  }
  void keep_states() override {
    move_residual(placement_.head);
    head_backend().keep_states();
  }
  void head() override {
    move_residual(placement_.head);
    timed(placement_.head, [&] { head_backend().head(); });
  }
  void allow(std::span<const std::span<const uint32_t>> masks) override { head_backend().allow(masks); }
  Result result() override {
    const Stopwatch watch(placement_.head == Place::device ? times_.wait : times_.host);
    return head_backend().result();
  }

  bool can_pick(const Picking& picking) const override { return on(placement_.head).can_pick(picking); }
  void copy_block(uint32_t from, uint32_t to) override {
    for (Side& part : parts_) part.backend->copy_block(from, to);
  }
  void copy_window_block(uint32_t from, uint32_t to) override {
    for (Side& part : parts_) part.backend->copy_window_block(from, to);
  }
  void copy_state(uint32_t from, uint32_t to) override {
    for (Side& part : parts_)
      if (has_states(part.model)) part.backend->copy_state(from, to);
  }
  // The device's bytes, then the host's.
  std::string kv_layout() const override {
    std::string all = fmt::format("split {} and {} at ", on(Place::device).kv_layout(), on(Place::host).kv_layout());
    for (const std::vector<Place>& places : placement_.sublayers) {
      for (const Place place : places) all += place == Place::device ? 'd' : place == Place::host ? 'h' : 'v';
      all += ' ';
    }
    return all;
  }
  uint64_t kv_part_bytes(KvPart part) const override {
    return on(Place::device).kv_part_bytes(part) + on(Place::host).kv_part_bytes(part);
  }
  void read_kv(std::span<const KvRead> reads) override {
    std::vector<KvRead> of_device, of_host;
    for (const auto& [from, to] : reads) {
      const uint64_t own = on(Place::device).kv_part_bytes(from.part);
      check(to.size() == kv_part_bytes(from.part), "as many bytes as the place has");
      if (own) of_device.push_back({from, to.first(own)});
      if (own < to.size()) of_host.push_back({from, to.subspan(own)});
    }
    if (!of_device.empty()) on(Place::device).read_kv(of_device);
    if (!of_host.empty()) on(Place::host).read_kv(of_host);
  }
  void write_kv(KvPlace place, std::span<const uint8_t> bytes) override {
    const uint64_t own = on(Place::device).kv_part_bytes(place.part);
    check(bytes.size() == kv_part_bytes(place.part), "as many bytes as the place has");
    if (own) on(Place::device).write_kv(place, bytes.first(own));
    if (own < bytes.size()) on(Place::host).write_kv(place, bytes.subspan(own));
  }
  bool usable() const override { return on(Place::device).usable() && on(Place::host).usable(); }
  std::vector<KernelTime> kernel_times() override { return on(Place::device).kernel_times(); }
  std::optional<SplitTimes> split_times() override { return std::exchange(times_, {}); }

 private:
  struct Side {
    Model model;
    std::unique_ptr<Backend> backend = nullptr;
    Batch batch = {};  // what this part computes of it: the outputs are those of the part with the head
  };
  struct Indices {  // of a sublayer among those of its layer in a part
    uint32_t device = 0, host = 0;
  };

  Side& part_at(Place place) { return parts_[place == Place::device ? 0 : 1]; }
  Backend& on(Place place) { return *part_at(place).backend; }
  const Backend& on(Place place) const { return const_cast<Split*>(this)->on(place); }
  Backend& head_backend() { return on(placement_.head); }
  Place place_of(uint32_t layer, uint32_t sublayer) const {
    const Place place = placement_.sublayers[layer][sublayer];
    if (place != Place::visiting) return place;
    return visits_ ? Place::device : Place::host;
  }
  uint32_t index_of(uint32_t layer, uint32_t sublayer, Place place) const {
    const Indices& of = indices_[layer][sublayer];
    return place == Place::device ? of.device : of.host;
  }
  void move_residual(Place to) {
    if (std::exchange(residual_at_, to) == to || part_at(to).batch.tokens.empty()) return;
    ++times_.crossings;
    std::span<const float> rows;
    {
      const Stopwatch watch(to == Place::host ? times_.wait : times_.host);
      rows = on(to == Place::host ? Place::device : Place::host).residual();
    }
    timed(to, [&] { on(to).set_residual(rows); });
  }
  void timed(Place place, auto&& work) {
    const Stopwatch watch(place == Place::device ? times_.launch : times_.host);
    work();
  }

  // The first visiting sublayer in both places: a visit takes as long for any number of rows, the host longer for more.
  void measure_visits() {
    visit_rows_ = ~0u;
    for (uint32_t layer = 0; layer < placement_.sublayers.size(); ++layer)
      for (uint32_t sublayer = 0; sublayer < placement_.sublayers[layer].size(); ++sublayer) {
        if (placement_.sublayers[layer][sublayer] != Place::visiting) continue;
        const auto time = [&](Place place, uint32_t rows) { return time_sublayer(layer, sublayer, place, rows); };
        const uint32_t few = std::min(max_rows_, 32u);
        time(Place::device, few);  // the file may not be in memory yet, nor all kernels be loaded
        const double visit = time(Place::device, few);
        for (uint32_t rows = 2; rows <= max_rows_ && visit_rows_ == ~0u; rows *= 2)
          if (time(Place::host, rows) > visit) visit_rows_ = rows;
        return;
      }
  }
  double time_sublayer(uint32_t layer, uint32_t sublayer, Place place, uint32_t rows) {
    const size_t width = parts_[0].model.width;
    std::vector<float> values(rows * width);
    uint32_t bits = 1;
    for (float& value : values) value = float(int32_t(bits = bits * 1664525 + 1013904223)) * 0x1p-31f;
    Batch batch{.tokens = std::vector<uint32_t>(rows),
                .sequences = std::vector<uint32_t>(rows),
                .blocks = {{0}},
                .window_blocks = {{0}}};
    batch.positions = batch.tokens;
    Backend& backend = on(place);
    backend.begin(batch);
    backend.set_residual(values);
    const auto start = Clock::now();
    backend.compute(layer, index_of(layer, sublayer, place));
    backend.add(layer, index_of(layer, sublayer, place));
    backend.residual();
    return seconds_since(start);
  }

  const Placement placement_;
  const uint32_t max_rows_;
  uint32_t visit_rows_;
  Side parts_[2];  // the device's, the host's
  std::vector<std::vector<Indices>> indices_;
  bool visits_ = false;  // the batch takes visiting sublayers to the device
  Place residual_at_ = Place::host;
  SplitTimes times_;
};

}  // namespace

std::string_view reads_beside_residual(const Layer& layer) {
  for (const Sublayer& sublayer : layer.sublayers) {
    if (std::holds_alternative<Altup>(sublayer)) return "several residual streams (AltUp)";
    if (std::holds_alternative<NextHead>(sublayer)) return "a head for multi-token prediction";
    if (const auto* f = std::get_if<FeedForward>(&sublayer); f && f->token_input) return "per-layer embeddings";
    if (const auto* a = std::get_if<Attention>(&sublayer); a && a->shared_cache) return "layers that share a KV cache";
  }
  return {};
}

Model frame_of(const Model& model) {
  return {.name = model.name,
          .architecture = model.architecture,
          .context = model.context,
          .width = model.width,
          .vocabulary = model.vocabulary,
          .short_text = model.short_text,
          .embedding_scale = model.embedding_scale,
          .norm = model.norm,
          .logit_scale = model.logit_scale,
          .logit_softcap = model.logit_softcap,
          .pooling = model.pooling};
}

Placement Placement::first_layers(const Model& model, uint32_t layers) {
  Placement placement;
  for (uint32_t i = 0; i < model.layers.size(); ++i)
    placement.sublayers.emplace_back(model.layers[i].sublayers.size(), i < layers ? Place::device : Place::host);
  return placement;
}

Model part_of(const Model& model, const Placement& placement, Place place) {
  check_placement(model, placement);
  Model part = frame_of(model);
  if (place == Place::host) {
    part.embedding = model.embedding;
    part.positions = model.positions;
    part.type_embeddings = model.type_embeddings;
    part.embedding_norm = model.embedding_norm;
    part.token_inputs = model.token_inputs;
  }
  if (place == placement.head) {
    part.output = model.output;
    part.output_bias = model.output_bias;
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& from = model.layers[i];
    Layer& to = part.layers.emplace_back(Layer{.parallel = from.parallel, .residual_scale = from.residual_scale});
    for (size_t s = 0; s < from.sublayers.size(); ++s)
      if (is_in(placement.sublayers[i][s], place)) to.sublayers.push_back(from.sublayers[s]);
    if (!from.sublayers.empty() && is_in(placement.sublayers[i].back(), place)) to.output_scale = from.output_scale;
  }
  return part;
}

std::vector<SublayerOfPart> visitors(const Model& model, const Placement& placement) {
  check_placement(model, placement);
  std::vector<SublayerOfPart> all;
  for (uint32_t i = 0; i < placement.sublayers.size(); ++i) {
    uint32_t index = 0;
    for (const Place place : placement.sublayers[i]) {
      if (place == Place::visiting) all.push_back({i, index});
      index += is_in(place, Place::device);
    }
  }
  return all;
}

std::unique_ptr<Backend> make_split(const Model& model, const Placement& placement, const MakeBackend& device,
                                    const MakeBackend& host, const SplitOptions& options) {
  return std::make_unique<Split>(model, placement, device, host, options);
}

}  // namespace heddle::model
