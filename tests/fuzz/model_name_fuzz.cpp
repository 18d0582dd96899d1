// Names from outside: those that are understood are folders and nothing else, and mean the same when written again.
// Headers and records of downloads, which are as short, are read here too.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "store/names.h"
#include "store/part_file.h"
#include "tests/fuzz/target.h"

namespace heddle {

FUZZ_TARGET(model_name) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto name = store::find_remote_name(text)) {
    if (!store::is_plain_name(name->owner) || !store::is_plain_name(name->name)) std::abort();
    if (name->source == store::RemoteName::Source::registry &&
        (!store::is_host(name->host) || !store::is_plain_name(name->tag)))
      std::abort();
    if (store::read_remote_name(name->text()) != *name) std::abort();
  }
  if (const auto range = store::read_content_range(text))
    if (range->range.begin >= range->range.end || range->range.end > range->total) std::abort();
  store::read_retry_after(text);
  try {
    store::origin_of(text);
  } catch (const Error&) {
  }
  const store::ByteRanges ranges = store::read_part_state("id 1000\n" + text, "id", 1000);
  if (ranges.total() > 1000) std::abort();
  for (const store::GgufModel& model : store::gguf_models_among({text, text + ".gguf", "a-00001-of-00002.gguf"}))
    if (model.label.empty() && !model.stem.empty()) std::abort();
  return 0;
}

}  // namespace heddle
