// The files of a repository of the Hugging Face Hub, and which of them are the model that was asked for.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/digest.h"

namespace heddle::store {

struct HubFile {
  std::string path;
  uint64_t bytes = 0;
  Digest digest;  // SHA-256 of large files, git's of small ones; empty where the hub says neither
};
struct HubList {
  std::string commit;
  std::vector<HubFile> files;
};

// The response of /api/models/ORG/REPO/revision/main?blobs=true. Throws an Error that begins with `where`, also for
// paths that would leave the folder. Hidden files are left out.
HubList read_hub_list(std::string_view text, std::string_view where);

struct HubChoice {
  std::vector<HubFile> files;
  std::string label;  // of the GGUF model; empty: a folder of safetensors
  std::string opens;  // the path of the file that opens the model; empty: the folder does
};
// With a tag, the GGUF model that it means; without one Q4_K_M, else Q8_0, else the first; and where the repository has
// no GGUF file, its safetensors with what belongs to them. An Error says what is there.
HubChoice choose_from_hub(const HubList& list, std::string_view tag, std::string_view where);

}  // namespace heddle::store
