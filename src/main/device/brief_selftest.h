// Before a GPU is used: is it right on a piece of the model? A few layers, some of the output's rows, a few tokens.
#pragma once
#include <functional>
#include <memory>

#include "base/error.h"
#include "model/backend.h"

namespace heddle {

// Parts of `model`, which must outlive it: layers of different kinds, as many as fit into so many products for a token,
// and at least the first.
model::Model cut_model(const model::Model& model, double products);

struct SelftestFailed : Error {
  using Error::Error;
};

using MakeBackend = std::function<std::unique_ptr<model::Backend>(const model::Model&, const model::Limits&)>;

// Compares the backend with the reference on a cut model: some tokens at once, and one by one. Throws SelftestFailed
// with both figures if it is not near enough. Both have a KV cache in `kv`. `seconds`: what the reference may take,
// about.
void brief_selftest(const model::Model& model, const MakeBackend& make, bool exact,
                    model::KvFormat kv = model::KvFormat::f16, double seconds = 0.2);

}  // namespace heddle
