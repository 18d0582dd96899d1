// Taking a model out of heddle's own store.
#pragma once
#include <cstdint>
#include <filesystem>

#include "store/find.h"
#include "store/names.h"

namespace heddle::store {

// Removes the model's files, what was not finished of it, and folders that are empty then. Returns the bytes that are
// free now. An Error for a model of another store says what removes it.
uint64_t remove_model(const FoundModel& model, const std::filesystem::path& own_store);

// Removes what an interrupted pull has left of a model that is not there: bytes; 0: there is nothing.
uint64_t remove_unfinished(const RemoteName& name, const std::filesystem::path& own_store);

}  // namespace heddle::store
