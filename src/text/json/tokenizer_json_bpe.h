// BPE as tokenizer.json describes it -> a model.
#pragma once
#include <memory>
#include <string>

#include "text/bpe/bpe.h"
#include "text/json/tokenizer_json_parts.h"

namespace heddle::text {

std::unique_ptr<const Model> make_bpe_model(const JsonModel& model, bool bytes, const std::string& where);

}  // namespace heddle::text
