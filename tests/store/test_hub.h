// A small server of files on this machine, which can be told to fail in the ways that servers do, and a hub and a
// registry of models on it.
#pragma once
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace heddle::test {

inline std::string hash_of(const std::string& text, const char* name = "SHA256") {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  size_t size = 0;
  EVP_Q_digest(nullptr, name, nullptr, text.data(), text.size(), bytes, &size);
  std::string hex;
  for (size_t i = 0; i < size; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}
inline std::string git_hash_of(const std::string& text) {
  return hash_of(fmt::format("blob {}", text.size()) + '\0' + text, "SHA1");
}

class TestServer {
 public:
  struct Request {
    std::string path;                            // with what follows "?"
    std::map<std::string, std::string> headers;  // names in lower case
    std::string header(const std::string& name) const {
      const auto found = headers.find(name);
      return found == headers.end() ? "" : found->second;
    }
  };
  struct Reply {
    int status = 200;
    std::string body;
    std::vector<std::string> headers = {};        // "Location: ..."
    bool ranges = true;                           // it serves them
    std::optional<size_t> cut_after = {};         // bytes of the body, then the connection is closed
    std::optional<uint64_t> claimed_length = {};  // another Content-Length than that of the body
    std::string content_range = {};               // another one than the right one
    double delay = 0;                             // seconds between pieces of 1000 bytes
  };
  using Handler = std::function<Reply(const Request&)>;

  explicit TestServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 64);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~TestServer() {
    stops_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    ::close(listener_);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string host() const { return fmt::format("127.0.0.1:{}", port_); }
  std::string address() const { return "http://" + host(); }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  uint64_t sent() const { return sent_; }  // bytes of bodies

 private:
  void accept_all() {
    while (!stops_) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const std::lock_guard lock(mutex_);
      sockets_.push_back(socket);
      threads_.emplace_back([this, socket] {
        serve(socket);
        const std::lock_guard inner(mutex_);
        std::erase(sockets_, socket);
        ::close(socket);
      });
    }
  }
  void serve(int socket) {
    std::string buffer;
    while (!stops_) {
      size_t end;
      while ((end = buffer.find("\r\n\r\n")) == buffer.npos) {
        char piece[4096];
        const ssize_t size = ::recv(socket, piece, sizeof piece, 0);
        if (size <= 0) return;
        buffer.append(piece, size_t(size));
      }
      const Request request = read_request(buffer.substr(0, end + 2));
      buffer.erase(0, end + 4);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      if (!answer(socket, request, handler_(request))) return;
    }
  }
  static Request read_request(const std::string& text) {
    Request request;
    const size_t begin = text.find(' ') + 1;
    request.path = text.substr(begin, text.find(' ', begin) - begin);
    for (size_t at = text.find("\r\n") + 2; at < text.size();) {
      const size_t end = text.find("\r\n", at), colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      for (char& c : name) c = char(std::tolower(c));
      request.headers[name] = text.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return request;
  }
  static bool send_all(int socket, std::string_view text) {
    while (!text.empty()) {
      const ssize_t size = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
      if (size <= 0) return false;
      text.remove_prefix(size_t(size));
    }
    return true;
  }
  // False: the connection is at its end.
  bool answer(int socket, const Request& request, Reply reply) {
    const std::string range = request.header("range");
    if (reply.status == 200 && reply.ranges && range.starts_with("bytes=")) {
      const uint64_t first = std::stoull(range.substr(6)), total = reply.body.size();
      const uint64_t last = std::min<uint64_t>(std::stoull(range.substr(range.find('-') + 1)), total - 1);
      reply.status = 206;
      if (reply.content_range.empty()) reply.content_range = fmt::format("bytes {}-{}/{}", first, last, total);
      reply.headers.push_back("Content-Range: " + reply.content_range);
      reply.body = reply.body.substr(first, last + 1 - first);
    }
    std::string head = fmt::format("HTTP/1.1 {} Status\r\nContent-Length: {}\r\n", reply.status,
                                   reply.claimed_length.value_or(reply.body.size()));
    for (const std::string& line : reply.headers) head += line + "\r\n";
    if (!send_all(socket, head + "\r\n")) return false;
    const std::string_view body = std::string_view(reply.body).substr(0, reply.cut_after.value_or(reply.body.size()));
    for (size_t at = 0; at < body.size() && !stops_;) {
      const size_t size = reply.delay > 0 ? std::min<size_t>(1000, body.size() - at) : body.size();
      if (!send_all(socket, body.substr(at, size))) return false;
      sent_ += size;
      at += size;
      if (reply.delay > 0) std::this_thread::sleep_for(std::chrono::duration<double>(reply.delay));
    }
    const bool whole = !reply.cut_after && !reply.claimed_length;
    if (!whole) ::shutdown(socket, SHUT_RDWR);
    return whole;
  }

  Handler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stops_ = false;
  std::atomic<uint64_t> sent_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Request> requests_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// Repositories with their files, as the Hugging Face Hub serves them, and models as Ollama's registry does.
class TestHub {
 public:
  static constexpr const char* commit = "0123456789abcdef0123456789abcdef01234567";

  std::map<std::string, std::map<std::string, std::string>> repositories;  // "org/repo" -> path -> bytes
  std::map<std::string, std::string> manifests;                            // "library/qwen3/0.6b" -> JSON
  std::map<std::string, std::string> blobs;                                // by SHA-256
  std::string token;                                                       // that has to be sent; empty: none
  std::string redirect;  // files are not served here but by the server at this address
  // What the next requests whose path has the key get instead, one after the other; unset: what is right.
  std::map<std::string, std::deque<std::optional<TestServer::Reply>>> instead;
  std::function<void(TestServer::Reply&)> change = [](TestServer::Reply&) {};  // of every file that is served

  TestServer server{[this](const TestServer::Request& request) { return reply(request); }};

  // "qwen3:0.6b" with this GGUF file.
  void add_model(const std::string& name, const std::string& bytes, const std::string& extra_layers = "") {
    const std::string hash = hash_of(bytes);
    blobs[hash] = bytes;
    manifests[name] = fmt::format(
        R"({{"schemaVersion":2,"layers":[{{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:{}","size":{}}}{}]}})",
        hash, bytes.size(), extra_layers);
  }

 private:
  static std::string list_json(const std::map<std::string, std::string>& files) {
    std::string list;
    for (const auto& [path, bytes] : files) {
      // large files are not git's own
      const bool large = path.ends_with(".gguf") || path.ends_with(".safetensors");
      list += fmt::format(
          R"({}{{"rfilename":"{}","size":{},"blobId":"{}"{}}})", list.empty() ? "" : ",", path, bytes.size(),
          git_hash_of(bytes),
          large ? fmt::format(R"(,"lfs":{{"sha256":"{}","size":{},"pointerSize":130}})", hash_of(bytes), bytes.size())
                : "");
    }
    return fmt::format(R"({{"id":"x","sha":"{}","siblings":[{}]}})", commit, list);
  }

  TestServer::Reply reply(const TestServer::Request& request) {
    const std::lock_guard lock(mutex_);
    for (auto& [part, replies] : instead) {
      if (request.path.find(part) == std::string::npos || replies.empty()) continue;
      const std::optional<TestServer::Reply> other = replies.front();
      replies.pop_front();
      if (other) return *other;
    }
    return right_reply(request);
  }
  TestServer::Reply right_reply(const TestServer::Request& request) {
    const std::string& path = request.path;
    if (!token.empty() && path.find("/blob-store/") == path.npos &&
        request.header("authorization") != "Bearer " + token)
      return {.status = 401, .body = R"({"error":"Invalid username or password."})"};
    for (const auto& [name, files] : repositories) {
      if (path == fmt::format("/api/models/{}/revision/main?blobs=true", name)) return {.body = list_json(files)};
      const std::string resolve = fmt::format("/{}/resolve/{}/", name, commit),
                        stored = fmt::format("/blob-store/{}/", name);
      if (path.starts_with(resolve) && !redirect.empty())
        return {.status = 302,
                .body = "moved",
                .headers = {
                    fmt::format("Location: {}{}{}?signature=secret", redirect, stored, path.substr(resolve.size()))}};
      const std::string& folder = path.starts_with(stored) ? stored : resolve;
      const std::string bare = path.substr(0, path.find('?'));
      if (bare.starts_with(folder) && files.contains(bare.substr(folder.size())))
        return served(files.at(bare.substr(folder.size())));
    }
    for (const auto& [name, json] : manifests) {
      const size_t slash = name.rfind('/');
      if (path == fmt::format("/v2/{}/manifests/{}", name.substr(0, slash), name.substr(slash + 1)))
        return {.body = json};
    }
    if (const size_t at = path.find("/blobs/sha256:"); at != path.npos && blobs.contains(path.substr(at + 14)))
      return served(blobs.at(path.substr(at + 14)));
    return {.status = 404, .body = "not found"};
  }
  TestServer::Reply served(const std::string& bytes) {
    TestServer::Reply reply{.body = bytes};
    change(reply);
    return reply;
  }

  std::mutex mutex_;
};

}  // namespace heddle::test
