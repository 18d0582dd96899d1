#include "store/pull.h"

#include <sys/statvfs.h>

#include <chrono>
#include <exception>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "store/find.h"
#include "store/hub_list.h"
#include "store/limits.h"
#include "store/lock.h"
#include "store/manifest.h"
#include "store/part_file.h"

namespace heddle::store {
namespace {

namespace fs = std::filesystem;

constexpr const char* pulled_file = ".pulled";

std::string fetch_text(const HttpGet& get, uint64_t max_bytes, const PullOptions& options) {
  std::string text;
  HttpClient client(options.download.http);
  with_retries(
      options.download.retries, [] { return 0; }, [&] { text = client.get_text(get, max_bytes); });
  return text;
}

// The hub answers 401 for what is not there as well as for what it hides.
[[noreturn]] void explain_hub(const HttpFailure& failure, const RemoteName& name, const Remotes& remotes) {
  const std::string page = fmt::format("{}/{}/{}", remotes.hub, name.owner, name.name);
  const bool token = !remotes.hub_token.empty();
  const auto explained = [&](const std::string& text) {
    return HttpFailure(failure.status, false, fmt::format("{}/{}: {}", name.owner, name.name, text));
  };
  if (failure.status == 401)
    throw explained(token ? fmt::format("{} does not accept the token (401): HF_TOKEN is wrong or expired", remotes.hub)
                          : fmt::format("{} does not show it (401): the name is wrong, or it is private or gated and "
                                        "needs a token in HF_TOKEN",
                                        remotes.hub));
  if (failure.status == 403)
    throw explained(fmt::format("the token may not read it (403): its terms have to be accepted at {}", page));
  if (failure.status == 404) throw explained(fmt::format("there is no such model at {} (404)", remotes.hub));
  throw failure;
}

PullPlan plan_from_hub(const RemoteName& name, const PullOptions& options) {
  const Remotes& remotes = options.remotes;
  const std::string repository = fmt::format("{}/{}", name.owner, name.name);
  if (remotes.offline) throw Error("{}: HF_HUB_OFFLINE is set: nothing is pulled", repository);
  std::string text;
  try {
    text = fetch_text({.url = fmt::format("{}/api/models/{}/revision/main?blobs=true", remotes.hub, repository),
                       .token = remotes.hub_token},
                      max_list_bytes, options);
  } catch (const HttpFailure& failure) {
    explain_hub(failure, name, remotes);
  }
  const HubList list = read_hub_list(text, repository);
  const HubChoice choice = choose_from_hub(list, name.tag, repository);
  PullPlan plan{.name = name, .folder = options.store / hub_folder / name.owner / name.name, .files = {}, .opens = {}};
  plan.name.tag = choice.label;
  plan.opens = choice.opens.empty() ? plan.folder : plan.folder / choice.opens;
  for (const HubFile& file : choice.files)
    plan.files.push_back({.path = file.path,
                          .url = fmt::format("{}/{}/resolve/{}/{}", remotes.hub, repository, list.commit,
                                             percent_encoded_path(file.path)),
                          .token = remotes.hub_token,
                          .bytes = file.bytes,
                          .digest = file.digest});
  return plan;
}

PullPlan plan_from_registry(const RemoteName& name, const PullOptions& options) {
  const std::string address =
      fmt::format("{}/v2/{}/{}", options.remotes.registry_address(name.host), name.owner, name.name);
  std::string text;
  try {
    text = fetch_text({.url = fmt::format("{}/manifests/{}", address, name.tag),
                       .headers = {"Accept: application/vnd.docker.distribution.manifest.v2+json"}},
                      max_manifest_bytes, options);
  } catch (const HttpFailure& failure) {
    if (failure.status == 404)
      throw HttpFailure(404, false, fmt::format("{}: there is no such model at {} (404)", name.text(), name.host));
    if (failure.status == 401 || failure.status == 403)
      throw HttpFailure(failure.status, false,
                        fmt::format("{}: {} does not let everyone read it ({}), and heddle has no password for it",
                                    name.text(), name.host, failure.status));
    throw;
  }
  const Manifest manifest = read_manifest(text, name.text());
  if (!manifest.problem.empty()) throw Error("{}: {}", name.text(), manifest.problem);
  PullPlan plan{.name = name,
                .folder = options.store / registry_folder / name.host / name.owner / name.name / name.tag,
                .files = {},
                .opens = {}};
  plan.opens = plan.folder / "model.gguf";
  plan.files.push_back({.path = "model.gguf",
                        .url = fmt::format("{}/blobs/sha256:{}", address, manifest.sha256),
                        .token = {},
                        .bytes = manifest.bytes,
                        .digest = {Digest::Kind::sha256, manifest.sha256}});
  return plan;
}

uint64_t free_bytes(const fs::path& folder) {
  struct statvfs about {};
  if (::statvfs(folder.c_str(), &about) != 0) return ~uint64_t(0);  // unknown: writing says it
  return uint64_t(about.f_bavail) * about.f_frsize;
}

class Puller {
 public:
  Puller(const PullPlan& plan, const PullOptions& options) : plan_(plan), options_(options) {}

  bool run() {
    const FolderLock lock(plan_.folder, options_.on_wait, options_.download.http.stop);
    pulled_ = read_pulled(plan_.folder);
    for (const RemoteFile& file : plan_.files)
      if (!is_there(file)) wanted_.push_back(&file);
    if (wanted_.empty()) return false;
    for (const RemoteFile* file : wanted_) total_ += file->bytes;
    expect_space();
    for (const RemoteFile* file : wanted_) {
      fs::create_directories((plan_.folder / file->path).parent_path());
      fetch(*file);
      before_ += file->bytes;
    }
    for (const RemoteFile* file : wanted_) put_in_place(*file);
    write_pulled(plan_.folder, pulled_);
    return true;
  }

 private:
  bool is_there(const RemoteFile& file) const {
    std::error_code error;
    const auto known = pulled_.find(file.path);
    return known != pulled_.end() && known->second == file.digest.text() &&
           fs::file_size(plan_.folder / file.path, error) == file.bytes && !error;
  }

  void expect_space() const {
    uint64_t needed = 0;
    for (const RemoteFile* file : wanted_)
      needed += file->bytes - PartFile::present(plan_.folder / file->path, file->bytes, file->digest.text());
    const uint64_t free = free_bytes(plan_.folder);
    if (needed > free)
      throw Error("{}: expected {} of free disk space for {}, found {}", plan_.folder.string(),
                  bytes_text(double(needed)), plan_.name.text(), bytes_text(double(free)));
  }

  // The download has threads of its own; this one reports.
  void fetch(const RemoteFile& file) {
    std::atomic<uint64_t> received = 0, verified = 0;
    std::atomic<bool> ended = false;
    std::exception_ptr failure;
    std::thread thread([&] {
      try {
        download(file, plan_.folder / file.path, options_.download, received, &verified);
      } catch (...) {
        failure = std::current_exception();
      }
      ended = true;
    });
    double waited = 0;
    while (!ended) {
      constexpr double step = 0.005;
      std::this_thread::sleep_for(std::chrono::duration<double>(step));
      if ((waited += step) < options_.progress_seconds) continue;
      waited = 0;
      report(verified ? PullProgress::Phase::verify : PullProgress::Phase::download, verified ? verified : received);
    }
    thread.join();
    if (failure) std::rethrow_exception(failure);
    report(PullProgress::Phase::download, file.bytes);
  }
  void report(PullProgress::Phase phase, uint64_t done) const {
    if (options_.on_progress) options_.on_progress({phase, before_ + done, total_});
  }

  void put_in_place(const RemoteFile& file) {
    const fs::path path = plan_.folder / file.path;
    std::error_code error;
    fs::rename(PartFile::path_of(path), path, error);
    if (error) throw Error("{}: cannot be put in place: {}", path.string(), error.message());
    PartFile::remove(path);
    pulled_[file.path] = file.digest.text();
  }

  const PullPlan& plan_;
  const PullOptions& options_;
  std::map<std::string, std::string> pulled_;
  std::vector<const RemoteFile*> wanted_;
  uint64_t total_ = 0, before_ = 0;  // bytes: of all wanted files, of those that are complete
};

}  // namespace

PullPlan plan_pull(const RemoteName& name, const PullOptions& options) {
  PullPlan plan =
      name.source == RemoteName::Source::hub ? plan_from_hub(name, options) : plan_from_registry(name, options);
  for (const RemoteFile& file : plan.files) {
    check(is_safe_path(file.path), "paths were checked when they were read");
    plan.bytes += file.bytes;
  }
  return plan;
}

bool pull(const PullPlan& plan, const PullOptions& options) {
  try {
    return Puller(plan, options).run();
  } catch (const HttpFailure& failure) {  // of a gated repository everyone sees the list
    if (plan.name.source == RemoteName::Source::hub) explain_hub(failure, plan.name, options.remotes);
    throw;
  }
}

std::map<std::string, std::string> read_pulled(const fs::path& folder) {
  std::map<std::string, std::string> files;
  std::ifstream file(folder / pulled_file);
  for (std::string line; std::getline(file, line);) {
    const size_t space = line.find(' ');
    if (space == line.npos || !is_safe_path(line.substr(space + 1))) continue;
    files[line.substr(space + 1)] = line.substr(0, space);
  }
  return files;
}

void write_pulled(const fs::path& folder, const std::map<std::string, std::string>& files) {
  std::error_code ignored;
  if (files.empty()) {
    fs::remove(folder / pulled_file, ignored);
    return;
  }
  OutputFile file(folder / pulled_file);
  for (const auto& [path, digest] : files) file.write(fmt::format("{} {}\n", digest, path));
  file.commit();
}

}  // namespace heddle::store
