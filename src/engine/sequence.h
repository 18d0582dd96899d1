// A request while it is there, and its copies: each a text, of which a part is computed.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/blocks.h"
#include "engine/lookup.h"
#include "engine/prompt_results.h"
#include "engine/request.h"
#include "model/backend.h"

namespace heddle::engine {

struct Sequence;

struct Task {
  Task(Request asked, const model::Model& model) : request(std::move(asked)), results(request, model) {}

  RequestId id = 0;
  const Request request;
  PromptResults results;
  OnEvent on_event;
  double arrival = 0;
  double deadline = 0;          // not a promise: who has the earliest is computed first
  std::optional<double> begun;  // when its first row was computed
  std::vector<std::unique_ptr<Sequence>> copies;
  uint32_t open = 0;  // copies that have not ended

  bool answers() const { return request.max_tokens > 0 && !request.embed; }  // or the prompt is all
  uint32_t prompt() const { return uint32_t(request.prompt.size()); }
};

struct Sequence {
  enum class State : uint8_t {
    unborn,   // the first copy computes the prompt
    waiting,  // holds nothing
    running,
    over,
  };

  Sequence(Task& of, uint32_t number, Sampler its);

  Task& task;
  const uint32_t copy;
  State state = State::unborn;
  struct End {
    FinishReason finish_reason;
    std::string reason;
  };
  std::optional<End> asked;  // from without; it is told in the next step
  Sampler sampler;
  std::optional<model::Picking> picking;  // if a device can do what the sampler does; without a text
  bool looks_back = false;                // it needs the text
  std::vector<uint32_t> tokens;           // known
  uint32_t computed = 0;                  // of them; always fewer
  uint32_t generated = 0, cached_tokens = 0;
  double told = 0;       // when its last token was given out
  uint64_t planned = 0;  // the last step it had rows in
  bool speculates = false, always_speculates = false;
  std::vector<uint32_t> proposed;  // for this step
  Lookup lookup;
  Payoff payoff;

  double first_told = 0;                         // when its first token was given out
  Timing timing;                                 // of the steps so far; the rest follows at the end
  std::shared_ptr<std::vector<StepTime>> steps;  // where they were asked for
  StepTime step;                                 // under way
  bool in_step = false;

  std::vector<uint32_t> blocks;           // that hold its positions, in order
  uint32_t linked = 0;                    // of them can be found
  Blocks::Link link = Blocks::beginning;  // of the text in these

  uint32_t known() const { return uint32_t(tokens.size()); }
  uint32_t behind() const { return known() - computed; }
  // The first row of which more than its KV is wanted: what comes before it can be taken from others.
  uint32_t next_wanted() const { return std::min(known() - 1, task.results.next()); }
  bool streaming() const { return generated > 0 && behind() == 1; }  // someone waits for its next token

  void share_prompt(const Sequence& first);  // that has computed it
  void look_up();                            // so that it can guess; once, before its first token
  void accept(uint32_t token);               // a new one
  std::optional<FinishReason> ending(uint32_t context) const;
  Timing timing_at(double end) const;
};

// Who keeps its blocks when there are not enough for all: the higher priority, then whoever came first.
inline bool outranks(const Sequence& a, const Sequence& b) {
  if (a.task.request.priority != b.task.request.priority) return a.task.request.priority > b.task.request.priority;
  if (a.task.id != b.task.id) return a.task.id < b.task.id;
  return a.copy < b.copy;
}
// Who is computed first when there is not enough time for all.
struct Earlier {
  bool operator()(const Sequence* a, const Sequence* b) const {
    if (a->task.deadline != b->task.deadline) return a->task.deadline < b->task.deadline;
    if (a->task.id != b->task.id) return a->task.id < b->task.id;
    return a->copy < b->copy;
  }
};

}  // namespace heddle::engine
