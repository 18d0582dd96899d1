// Workers take ranges from a list. A server that answers a range with the whole file is asked for all of it instead.
#include "store/download.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "store/part_file.h"

namespace heddle::store {
namespace {

struct NoRanges {};  // the server does not serve ranges

class Download {
 public:
  Download(const RemoteFile& file, PartFile& part, const DownloadOptions& options, std::atomic<uint64_t>& received)
      : file_(file), part_(part), options_(options), received_(received) {}

  void run() {
    try {
      in_ranges();
    } catch (const NoRanges&) {
      whole();
    }
  }

 private:
  void in_ranges() {
    received_ = file_.bytes;
    for (const ByteRange& gap : part_.missing()) {
      received_ -= gap.size();
      for (uint64_t at = gap.begin; at < gap.end; at += options_.range_bytes)
        ranges_.push_back({at, std::min(at + options_.range_bytes, gap.end)});
    }
    const size_t count = std::min<size_t>(std::max(1u, options_.connections), ranges_.size());
    std::vector<std::thread> threads;
    for (size_t i = 1; i < count; ++i) threads.emplace_back([this] { work(); });
    if (count) work();
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

  void work() try {
    HttpClient client(options_.http);
    while (const std::optional<ByteRange> range = take()) fetch(client, *range);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    ranges_.clear();  // the others end with the range they have
    failed_ = true;
  }
  std::optional<ByteRange> take() {
    const std::lock_guard lock(mutex_);
    if (ranges_.empty()) return std::nullopt;
    const ByteRange range = ranges_.front();
    ranges_.pop_front();
    return range;
  }

  void fetch(HttpClient& client, ByteRange range) {
    uint64_t at = range.begin, recorded = at;
    const auto record = [&] {
      part_.record({recorded, at});
      recorded = at;
    };
    with_retries(
        options_.retries, [&] { return at; },
        [&] {
          try {
            // all of the file is asked for without a range, which every server serves
            const bool all = at == 0 && range.end == file_.bytes;
            HttpGet get{.url = file_.url, .token = file_.token};
            if (!all) get.range = ByteRange{at, range.end};
            const auto on_head = [&](const HttpHead& head) {
              if (all) return expect_whole(head);
              if (head.status == 200) throw NoRanges();
              expect_range(head, {at, range.end});
            };
            client.get(get, on_head, [&](std::span<const uint8_t> bytes) {
              if (failed_) throw HttpStopped();  // another range has failed for good
              if (bytes.size() > range.end - at) refuse_size("more");
              part_.write(at, bytes);
              at += bytes.size();
              received_ += bytes.size();
              if (at - recorded >= options_.record_bytes) record();
            });
            if (at != range.end) throw HttpFailure(0, true, fmt::format("{}: the response ended early", file_.path));
            record();
          } catch (...) {
            record();
            throw;
          }
        });
  }

  // From the beginning, each time.
  void whole() {
    HttpClient client(options_.http);
    with_retries(
        options_.retries, [] { return 0; },
        [&] {
          part_.forget_all();
          received_ = 0;
          uint64_t at = 0;
          client.get(
              {.url = file_.url, .token = file_.token}, [&](const HttpHead& head) { expect_whole(head); },
              [&](std::span<const uint8_t> bytes) {
                if (bytes.size() > file_.bytes - at) refuse_size("more");
                part_.write(at, bytes);
                at += bytes.size();
                received_ += bytes.size();
              });
          if (at != file_.bytes) throw HttpFailure(0, true, fmt::format("{}: the response ended early", file_.path));
          part_.record({0, at});
        });
  }

  void expect_whole(const HttpHead& head) const {
    const std::string* length = head.find("content-length");
    if (length && *length != fmt::format("{}", file_.bytes)) refuse_size(*length);
  }
  void expect_range(const HttpHead& head, ByteRange range) const {
    const std::string* text = head.find("content-range");
    const std::optional<ContentRange> found = text ? read_content_range(*text) : std::nullopt;
    if (!found || found->range != range || found->total != file_.bytes)
      throw Error("{}: expected bytes {}-{} of {}, the server sends {}", file_.path, range.begin, range.end - 1,
                  file_.bytes, text ? *text : "no Content-Range");
  }
  [[noreturn]] void refuse_size(std::string_view found) const {
    throw Error("{}: expected {} bytes, the server sends {}", file_.path, file_.bytes, found);
  }

  const RemoteFile& file_;
  PartFile& part_;
  const DownloadOptions& options_;
  std::atomic<uint64_t>& received_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // guards what follows
  std::deque<ByteRange> ranges_;
  std::exception_ptr failure_;
};

}  // namespace

void download(const RemoteFile& file, const std::filesystem::path& final_path, const DownloadOptions& options,
              std::atomic<uint64_t>& received, std::atomic<uint64_t>* verified) {
  {
    PartFile part(final_path, file.bytes, file.digest.text());
    Download(file, part, options, received).run();
    part.flush();
  }
  const std::string found = digest_of(PartFile::path_of(final_path), file.digest.kind, [&](uint64_t read) {
    if (options.http.stop && *options.http.stop) throw HttpStopped();
    if (verified) *verified = read;
  });
  if (found == file.digest.hex) return;
  PartFile::remove(final_path);
  throw Error("{}: expected the {} hash {}, found {}; what was downloaded has been removed", file.path,
              file.digest.kind == Digest::Kind::sha256 ? "SHA-256" : "git", file.digest.hex, found);
}

}  // namespace heddle::store
