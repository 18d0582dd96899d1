// Opens the file once, for the weights and the tokenizer; then finds the device.
#include "main/device/running_model.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <ostream>

#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "cuda/context.h"
#include "formats/mix.h"
#include "gpu/gpu.h"
#include "main/device/device_memory.h"
#include "main/device/model_checks.h"
#include "main/device/open_model.h"
#include "main/progress.h"
#include "model/load.h"
#include "model/pooled.h"
#include "model/shard.h"
#include "model/stages.h"
#include "ranks/stage.h"

namespace heddle {
namespace {

std::string bytes(uint64_t count) { return bytes_text(double(count)); }

std::string type_of_weights(const formats::Checkpoint& checkpoint) {
  if (checkpoint.kind == formats::Checkpoint::Kind::gguf)
    if (const auto number = checkpoint.metadata.find_integer("general.file_type"))
      for (const formats::FileType type : formats::all_file_types())
        if (formats::gguf_file_type(type) == *number) return std::string(formats::name(type));
  std::map<quant::Format, uint64_t> values;
  for (const formats::Tensor& tensor : checkpoint.tensors) values[tensor.format] += tensor.values();
  if (values.empty()) return "";
  const auto most = std::ranges::max_element(values, {}, [](const auto& one) { return one.second; });
  std::string name(quant::name(most->first));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return name;
}

class Opener {
 public:
  Opener(const std::string& path, const DeviceOptions& options, std::ostream* log, uint32_t rows)
      : path_(path),
        options_(share_of_rank(options)),
        log_(log),
        rows_(rows),
        wanted_(wanted_device(options)),
        line_(log) {}

  std::unique_ptr<RunningModel> open() {
    rank_place(options_.ranks);  // its options fit each other, or it throws
    line_.show("loading " + path_);
    formats::Checkpoint checkpoint = open_model(path_);
    expect_known_architecture(checkpoint);
    say_warnings(checkpoint);
    running_ = std::make_unique<RunningModel>();
    if (has_vocabulary(checkpoint)) running_->maybe_tokenizer.emplace(open_tokenizer(checkpoint));
    running_->chat_template = checkpoint.chat_template();
    running_->rerank_template = checkpoint.chat_template("rerank");
    running_->files = files_of(checkpoint);
    trained_ = trained_context(checkpoint);
    running_->draft_tokens = options_.proposals();
    const std::string print = options_.ranks.asked() ? fingerprint(checkpoint) : "";
    if (!options_.draft.empty()) open_draft(checkpoint);
    running_->model = model::load(std::move(checkpoint), load_options(options_.context));
    if (options_.mtp && !model::next_head(running_->model))
      throw Error(
          "--mtp: expected a model with a head for multi-token prediction that heddle computes, found none in {}",
          path_);
    context_ = running_->model.context;
    expect_splittable(running_->model, options_);
    if (draft() && draft()->vocabulary != running_->model.vocabulary)
      throw Error("draft {}: expected the vocabulary of {} with {} tokens, found {}", options_.draft, path_,
                  running_->model.vocabulary, draft()->vocabulary);
    if (options_.ranks.asked()) {
      on_ranks(print);
      return std::move(running_);
    }
    if (options_.gpu_layers == 0u) why_not("--gpu-layers 0");
    if (wanted_.cpu || options_.gpu_layers == 0u)
      on_cpu();
    else if (wanted_.gpu)
      on_this_gpu(cuda::Context(*wanted_.gpu));
    else if (!on_any_gpu())
      on_cpu();
    return std::move(running_);
  }

 private:
  void open_draft(const formats::Checkpoint& of) {
    formats::Checkpoint checkpoint = open_model(options_.draft);
    expect_known_architecture(checkpoint);
    say_warnings(checkpoint);
    expect_same_vocabulary(of, checkpoint);
    running_->draft = std::make_unique<RunningModel>();
    running_->draft->model = model::load(std::move(checkpoint));
  }
  model::LoadOptions load_options(uint32_t context) const { return {.context = context, .next_head = options_.mtp}; }
  const model::Model* draft() const { return running_->draft ? &running_->draft->model : nullptr; }

  // The first GPU that can run it, else the first that can run a part of it; or false and the reasons.
  bool on_any_gpu() {
    std::vector<uint32_t> capable;
    for (const cuda::DeviceInfo& info : all_gpus())
      try_gpu(info.ordinal, [&](const cuda::Context& context) {
        std::string too_large;
        if (whole_on_gpu(context, too_large)) return;
        capable.push_back(info.ordinal);
        if (!too_large.empty()) why_not(too_large);
      });
    if (!running_->backend && !capable.empty() && options_.beside_others && !asks_for_part())
      throw TooLittleMemory("{}: too little memory: {}", running_->model.name, why_not_);
    for (const uint32_t ordinal : capable)
      try_gpu(ordinal, [&](const cuda::Context& context) { split_on_gpu(context); });
    if (running_->backend) return true;
    if (asks_for_split(options_))
      throw Error("{}: no GPU can run a part of {}: {}", options_.gpu_layers ? "--gpu-layers" : "--cpu-experts",
                  running_->model.name, why_not_);
    return false;
  }
  // None, and the reason, where there are none.
  std::vector<cuda::DeviceInfo> all_gpus() {
    try {
      return cuda::devices();
    } catch (const cuda::NoDriver& error) {  // `heddle devices` says where it was looked for
      const std::string text = error.what();
      why_not(text.substr(0, text.find(" (tried ")));
    } catch (const Error& error) {
      why_not(error.what());
    }
    return {};
  }
  // An Error is a reason to look further.
  void try_gpu(uint32_t ordinal, auto&& load) {
    if (running_->backend) return;
    try {
      load(cuda::Context(ordinal));
    } catch (const SelftestFailed&) {  // a GPU that computes wrong results must not be passed over in silence
      throw;
    } catch (const DoesNotSplit&) {  // it was said already that the whole does not fit
      if (asks_for_split(options_)) throw;
    } catch (const Error& error) {
      why_not(fmt::format("cuda:{}: {}", ordinal, error.what()));
    }
  }
  void why_not(const std::string& reason) { why_not_ += (why_not_.empty() ? "" : "; ") + reason; }

  void on_this_gpu(const cuda::Context& context) {
    std::string too_large;
    if (whole_on_gpu(context, too_large)) return;
    if (options_.beside_others && !too_large.empty()) throw TooLittleMemory("{}", too_large);
    try {
      split_on_gpu(context);
    } catch (const DoesNotSplit& error) {
      if (options_.beside_others) throw TooLittleMemory("{}", error.what());
      if (too_large.empty()) throw;
      throw Error("{}; nor does a part of it fit: {}", too_large, error.what());
    }
  }

  // `context` stays alive until the backend has its own: creating one takes longer than loading a small model.
  // False with the reason in `too_large`, or none if a split was asked for.
  bool whole_on_gpu(const cuda::Context& context, std::string& too_large) {
    restore_context();
    const cuda::DeviceInfo& info = context.info();
    const std::string name = fmt::format("cuda:{} {}", info.ordinal, info.name);
    gpu::expect_capable(info);
    if (asks_for_part()) return false;
    const uint64_t free = context.memory().free;
    const Fit fits =
        fit(running_->model, options_, rows_ ? rows_ : gpu_rows, usable_on_gpu(options_, free), &info, draft());
    if (fits.context == 0 || is_short(fits)) {
      too_large = wanted_.gpu
                      ? does_not_fit(running_->model, fits, " on " + name, draft())
                      : fmt::format("cuda:{}: the model{} needs {}, {} are free", info.ordinal,
                                    draft() ? " with its draft" : "", bytes(fits.total()), bytes(fits.available));
      // a draft is to make it faster: the model is not split to make room for one
      if (draft() && fits.needed.total() <= fits.available) throw Error("{}", too_large);
      if (options_.mtp) throw Error("{}; without --mtp a part of it may run on the CPU", too_large);
      return false;
    }
    settle(fits.context, fits.limits);
    each_model([&](RunningModel& each) { load_on_gpu(each, info.ordinal); });
    running_->gpu = info.ordinal;
    if (!wanted_.gpu) say(fmt::format("device: {}, {} free", name, bytes(free)));
    say_context(fits);
    return true;
  }
  // Models beside others have a useful context, or more room is made for them.
  bool is_short(const Fit& fits) const {
    constexpr uint32_t useful = 8192;
    return options_.beside_others && fits.context < std::min(context_, useful);
  }
  // By numbers that leave something to the CPU.
  bool asks_for_part() const {
    const bool all = !options_.gpu_layers || *options_.gpu_layers == model::own_layers(running_->model);
    return asks_for_split(options_) && !(all && options_.cpu_experts.value_or(0) == 0);
  }

  void split_on_gpu(const cuda::Context& context) {
    restore_context();
    const cuda::DeviceInfo& info = context.info();
    const SplitRoom room{.gpu = info,
                         .gpu_bytes = usable_on_gpu(options_, context.memory().free),
                         .cpu_bytes = usable_on_cpu(options_),
                         .rows = rows_};
    const SplitRates rates = measure_rates(running_->model, options_, context);
    const SplitChoice choice = choose_split(running_->model, options_, room, rates, draft());
    settle(choice.context, choice.limits);
    say("device: " + choice.text);
    if (choice.context != context_)
      say(fmt::format("the context is {} tokens of {}: --ctx makes it longer, with less of the model on the GPU",
                      choice.context, context_));
    load_split(choice, info.ordinal);
    if (running_->draft) load_on_gpu(*running_->draft, info.ordinal);
    running_->gpu = info.ordinal;
    running_->split = choice;
  }

  void load_split(const SplitChoice& choice, uint32_t ordinal) {
    selftest_gpu(running_->model, ordinal);
    running_->backend =
        make_split_backend(running_->model, choice.placement, choice.limits,
                           gpu_options(running_->model, ordinal, options_.trace), cpu_options(running_->model));
  }

  void load_on_gpu(RunningModel& each, uint32_t ordinal) {
    selftest_gpu(each.model, ordinal);
    const bool trace = options_.trace && &each == running_.get();
    each.backend = gpu::make_gpu(each.model, each.limits, gpu_options(each.model, ordinal, trace));
  }
  void selftest_gpu(const model::Model& model, uint32_t ordinal) const {
    if (options_.no_selftest) return;
    brief_selftest(
        model,
        [&](const model::Model& cut, const model::Limits& limits) {
          return gpu::make_gpu(cut, limits,
                               {.device = ordinal, .exact = options_.exact, .deterministic = options_.deterministic});
        },
        options_.exact, options_.kv);
  }
  gpu::Options gpu_options(const model::Model& model, uint32_t ordinal, bool trace) {
    return {.device = ordinal,
            .exact = options_.exact,
            .deterministic = options_.deterministic,
            .trace = trace,
            .progress = loading(model),
            .on_assembling = [this, &model] { line_.show("assembling the kernels of " + model.name); }};
  }
  cpu::Options cpu_options(const model::Model& model) {
    return {.threads = options_.threads,
            .isa = options_.isa,
            .exact = options_.exact,
            .repack = !options_.no_repack,
            .progress = loading(model)};
  }

  void on_cpu() {
    if (options_.trace) throw Error("--trace is for GPUs: {}", why_not_.empty() ? "this runs on the CPU" : why_not_);
    restore_context();
    const Fit fits =
        fit(running_->model, options_, rows_ ? rows_ : cpu_rows(options_), usable_on_cpu(options_), nullptr, draft());
    if (fits.context == 0 || is_short(fits))
      throw TooLittleMemory("{}", does_not_fit(running_->model, fits, "", draft()));
    if (!why_not_.empty()) say(fmt::format("device: cpu ({})", why_not_));
    settle(fits.context, fits.limits);
    say_context(fits);
    each_model([&](RunningModel& each) { load_on_cpu(each); });
  }

  void load_on_cpu(RunningModel& each) {
    if (options_.backend == "reference") {
      each.backend = cpu::make_reference(each.model, each.limits);
      return;
    }
    each.backend = cpu::make_cpu(each.model, each.limits, cpu_options(each.model));
  }

  // This process is one of several. What fails here is told to the others.
  void on_ranks(const std::string& print) {
    expect_ranks_possible();
    running_->group = std::make_unique<RankGroup>(path_, print, options_, rows_);
    RankGroup& group = *running_->group;
    try {
      load_rank(group);
    } catch (const std::exception& error) {
      group.group().fail(error.what());
      running_->backend.reset();
      throw Error("{}", group.group().alarm().why());
    }
  }
  void expect_ranks_possible() const {
    if (options_.trace) throw Error("--trace: expected one process, found several ranks");
    if (asks_for_split(options_))
      throw Error("{}: expected one process, found several ranks",
                  options_.gpu_layers ? "--gpu-layers" : "--cpu-experts");
    if (options_.mtp && options_.ranks.pipeline > 1)
      throw Error("--mtp: expected one stage, found --pipeline {}", options_.ranks.pipeline);
    if (!options_.ranks.gpus.empty() && wanted_.cpu)
      throw Error("--gpus: expected --device auto with it, found {}", option_for_cpu(options_));
    if (!options_.ranks.gpus.empty() && wanted_.gpu)
      throw Error("--gpus: expected --device auto with it, found --device {}", options_.device);
    if (options_.ranks.cpu_ranks && wanted_.gpu)
      throw Error("--cpu-ranks: expected --device cpu or auto with it, found {}", options_.device);
  }
  void load_rank(RankGroup& group) {
    cut_for(group);
    const model::Model* draft_here = group.leads() ? draft() : nullptr;  // rank 0 computes the draft alone
    const std::optional<uint32_t> gpu = gpu_of(group);
    std::optional<cuda::Context> on;  // until the backend has its own
    if (gpu) gpu::expect_capable(on.emplace(*gpu).info());
    const Fit fits = on ? fit(running_->own(), options_, rows_ ? rows_ : gpu_rows,
                              usable_on_gpu(options_, on->memory().free / ranks_on(*gpu)), &on->info(), draft_here)
                        : fit(running_->own(), options_, rows_ ? rows_ : cpu_rows(options_), usable_on_cpu(options_),
                              nullptr, draft_here);
    if (fits.context == 0)
      throw TooLittleMemory(
          "{}", does_not_fit(running_->own(), fits, gpu ? fmt::format(" on cuda:{}", *gpu) : "", draft_here));
    uint32_t context = fits.context;
    model::Limits limits = fits.limits;
    group.agree(running_->own(), context, limits);
    settle(context, limits);
    cut_for(group);
    say_context(fits);
    std::unique_ptr<model::Backend> own = rank_backend(group);
    if (running_->draft && group.leads()) gpu ? load_on_gpu(*running_->draft, *gpu) : load_on_cpu(*running_->draft);
    running_->gpu = gpu;
    group.group().smallest({});  // all are ready
    running_->backend =
        group.leads() ? ranks::make_leader(std::move(own), group.group(), &group.numbers()) : std::move(own);
  }
  void cut_for(RankGroup& group) {
    const uint32_t stages = options_.ranks.pipeline, each = group.ranks() / stages;
    running_->shard.reset();
    running_->stage.reset();
    if (stages > 1)
      running_->stage =
          model::stage_of(running_->model, model::stages_of(running_->model, stages)[group.rank() / each]);
    if (each > 1)
      running_->shard = model::shard_of(running_->own(), group.rank() % each, each,
                                        {.expert_parallel = options_.ranks.expert_parallel});
  }
  // What computes the part of this rank: on its device, together with the others.
  std::unique_ptr<model::Backend> rank_backend(RankGroup& group) {
    const model::Model& own = running_->own();
    const std::optional<uint32_t> gpu = gpu_of(group);
    std::unique_ptr<model::Backend> backend = gpu ? rank_on_gpu(group, *gpu) : rank_on_cpu(group);
    if (!running_->stage) return backend;
    return ranks::make_stage(own, std::move(backend), group.collective(), {.stages = options_.ranks.pipeline});
  }

  std::unique_ptr<model::Backend> rank_on_cpu(RankGroup& group) {
    const model::Model& own = running_->own();
    cpu::Options with = cpu_options(own);
    if (running_->shard) with.ranks = &group.of_stage();
    if (options_.backend != "reference") return cpu::make_cpu(own, running_->limits, with);
    return with.ranks ? cpu::make_reference_rank(own, running_->limits, *with.ranks)
                      : cpu::make_reference(own, running_->limits);
  }
  std::unique_ptr<model::Backend> rank_on_gpu(RankGroup& group, uint32_t ordinal) {
    gpu::Options with = gpu_options(running_->own(), ordinal, false);
    if (running_->shard) with.ranks = {.group = &group.of_stage(), .timeout = ranks::Patience{}.collective};
    if (ranks_on(ordinal) > 1) {  // NCCL takes no two ranks on one GPU unless they seem to be on different machines
      setenv("NCCL_HOSTID", fmt::format("rank{}", group.rank()).c_str(), 0);
      setenv("NCCL_SOCKET_IFNAME", "lo", 0);
      setenv("NCCL_IB_DISABLE", "1", 0);
    }
    return gpu::make_gpu(running_->own(), running_->limits, with);
  }
  // The GPU of this rank; none: it computes on the CPU.
  std::optional<uint32_t> gpu_of(const RankGroup& group) const {
    const RankOptions& ranks = options_.ranks;
    if (ranks.cpu_ranks || wanted_.cpu) return {};
    if (!ranks.gpus.empty()) return ranks.gpus.at(group.rank());
    return wanted_.gpu ? *wanted_.gpu : rank_place(ranks).local;
  }
  // How many ranks compute on a GPU of this machine.
  uint32_t ranks_on(uint32_t ordinal) const {
    const std::vector<uint32_t>& gpus = options_.ranks.gpus;
    return gpus.empty() ? 1 : uint32_t(std::count(gpus.begin(), gpus.end(), ordinal));
  }

  // The model, then its draft.
  void each_model(auto&& load) {
    load(*running_);
    if (running_->draft) load(*running_->draft);
  }

  // Again with another context, on which the rotary frequencies may depend.
  void load(uint32_t context) { running_->model = model::load(open_model(path_), load_options(context)); }
  void restore_context() {  // the device tried before may have had room for less
    if (running_->model.context != context_) load(options_.context);
  }
  void settle(uint32_t context, const model::Limits& limits) {
    if (context != running_->model.context) load(context);
    each_model([&](RunningModel& each) {
      each.limits = &each == running_.get() ? limits : draft_limits(limits);
      if (!model::has_states(each.model)) each.limits.state_slots = 0;
    });
  }
  void say_context(const Fit& fits) {
    if (trained_ && options_.context > trained_ && !options_.untrained_context)
      say(fmt::format("warning: a context of {} tokens, but {} was trained for {}: expect worse text beyond that",
                      options_.context, running_->model.name, trained_));
    if (fits.context != context_)
      say(fmt::format("the context is {} tokens of {}: more does not fit into memory", fits.context, context_));
    const uint64_t cache = uint64_t(fits.limits.kv_blocks) * fits.limits.block_tokens;
    if (cache < options_.cache_tokens)
      say(fmt::format("the KV cache is {} tokens of {}: more does not fit into memory", cache, options_.cache_tokens));
  }
  void say_warnings(const formats::Checkpoint& checkpoint) {
    if (const std::string note = checkpoint.quantization_note(); !note.empty()) say(note);
    for (const std::string& text : checkpoint.warnings) say("warning: " + text);
  }
  void say(const std::string& line) {
    if (log_) line_.message(*log_, line);
  }
  std::function<void(uint64_t, uint64_t)> loading(const model::Model& model) {
    return [this, &model](uint64_t done, uint64_t all) { line_.transfer("loading " + model.name, done, all); };
  }

  const std::string& path_;
  const DeviceOptions options_;
  std::ostream* log_;
  uint32_t rows_;
  WantedDevice wanted_;
  std::unique_ptr<RunningModel> running_;
  uint32_t context_ = 0;  // of the model, before any cut
  uint64_t trained_ = 0;  // tokens of context; 0: not known
  std::string why_not_;   // reasons for which no GPU is used
  ProgressLine line_;
};

}  // namespace

const text::Tokenizer& RunningModel::tokenizer() const {
  if (!maybe_tokenizer) throw Error("{}: the model has no tokenizer", model.name);
  return *maybe_tokenizer;
}

bool RunningModel::ranks() const {
  try {
    model::expect_ranks(model);
  } catch (const Error&) {
    return false;
  }
  return true;
}

void RunningModel::set_draft(engine::EngineOptions& to) const {
  if (draft) to.draft = engine::DraftModel{&draft->model, draft->backend.get(), draft->limits, draft_tokens};
  to.max_predicted = draft_tokens;
}

std::unique_ptr<RunningModel> open_running(const std::string& path, const DeviceOptions& options, std::ostream* log,
                                           uint32_t rows) {
  return Opener(path, options, log, rows).open();
}

ModelFiles files_of(const formats::Checkpoint& checkpoint) {
  ModelFiles files{.format = checkpoint.kind == formats::Checkpoint::Kind::gguf ? "gguf" : "safetensors",
                   .type = type_of_weights(checkpoint),
                   .bytes = checkpoint.file_bytes()};
  if (checkpoint.files.empty())  // the model inside the program
    for (const formats::Tensor& tensor : checkpoint.tensors) files.bytes += tensor.bytes();
  if (const formats::Value* license = checkpoint.metadata.find("general.license"))
    if (const auto* text = std::get_if<std::string>(license)) files.license = *text;
  struct stat about {};
  if (!checkpoint.files.empty() && ::stat(checkpoint.path.c_str(), &about) == 0) files.modified = about.st_mtime;
  return files;
}

}  // namespace heddle
