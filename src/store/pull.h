// From a name to a model in heddle's own store: what has to come, from where, and then that it comes whole.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "store/download.h"
#include "store/names.h"
#include "store/remotes.h"

namespace heddle::store {

// What a name is at its source.
struct PullPlan {
  RemoteName name;               // with the tag that was chosen
  std::filesystem::path folder;  // in the own store
  std::vector<RemoteFile> files;
  std::filesystem::path opens;  // the file or folder that is the model
  uint64_t bytes = 0;           // of all files
};

struct PullProgress {
  enum class Phase { download, verify };
  Phase phase;
  uint64_t done, total;  // bytes, of all files
};

struct PullOptions {
  std::filesystem::path store;
  Remotes remotes;
  DownloadOptions download;
  std::function<void(const PullProgress&)> on_progress = {};  // from one thread, several times a second
  std::function<void(pid_t)> on_wait = {};                    // another process pulls into the same folder
  double progress_seconds = 0.1;
};

// Asks the source. Throws an Error with what can be done about it: HttpFailure where the server refused.
PullPlan plan_pull(const RemoteName& name, const PullOptions& options);

// Downloads what is not there yet. False: all of it was there. Files appear under their names only when all of them are
// complete and verified. Throws an Error if the disk has too little space, before anything is downloaded.
bool pull(const PullPlan& plan, const PullOptions& options);

// The files in the folder that were pulled, with the hash that they were verified by: "FOLDER/.pulled".
std::map<std::string, std::string> read_pulled(const std::filesystem::path& folder);
void write_pulled(const std::filesystem::path& folder, const std::map<std::string, std::string>& files);

}  // namespace heddle::store
