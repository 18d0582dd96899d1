// Which model, and which of the two forms of a tokenizer it has.
#include "main/device/open_model.h"

#include "base/error.h"
#include "formats/gguf.h"
#include "main/commands/vocabulary_keys.h"
#include "main/device/own_model.h"

namespace heddle {

formats::Checkpoint open_model(const std::string& path) {
  return path.empty() ? formats::read_gguf(own_model(), "weft") : formats::open_checkpoint(path);
}

text::Tokenizer open_tokenizer(const formats::Checkpoint& checkpoint) {
  if (checkpoint.kind == formats::Checkpoint::Kind::gguf)
    return text::Tokenizer::from_vocabulary(vocabulary_of(checkpoint));
  if (checkpoint.text.tokenizer.empty())
    throw Error("{}: has no tokenizer: expected a tokenizer.json beside the weights", checkpoint.path.string());
  return text::Tokenizer::from_json(checkpoint.text.tokenizer, checkpoint.text.tokenizer_config,
                                    checkpoint.path.string());
}

}  // namespace heddle
