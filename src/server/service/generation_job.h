// Generation of text: from a request that any protocol has read, through the engine, to the events that its writer
// turns into a response.
#pragma once
#include <memory>

#include "server/api/generation.h"
#include "server/service/call.h"
#include "server/status/trace.h"

namespace heddle::server {

// Returns at once. Throws an ApiError if the engine does not take the request; anything later goes to the writer.
// `preparation`: how long it took to get here, for the trace.
void generate(const Call& call, GenerationRequest request, std::unique_ptr<GenerationWriter> writer,
              const Preparation& preparation);

}  // namespace heddle::server
