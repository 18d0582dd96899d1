// Texts to embed and to rank, as requests of the engine.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "main/device/running_model.h"

namespace heddle {

engine::Request embed_request(const RunningModel& running, std::string_view text);
std::vector<float> embedding_of(const engine::Event& event);  // its last one: of length 1

// One for each document. `truncate`: documents that are too long are cut. An Error if the model is not a reranker.
std::vector<engine::Request> rank_requests(const RunningModel& running, std::string_view query,
                                           std::span<const std::string> documents, bool truncate);

}  // namespace heddle
