#include "tiers/transfer_server.h"

#include <random>
#include <unordered_map>

#include "base/error.h"

namespace heddle::tiers {
namespace {

using engine::KvKey;
using engine::KvOffer;
using engine::TextHash;

std::string random_name() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) name += fmt::format("{:08x}", uint32_t(random()));
  return name;
}

std::vector<uint8_t> receive_frame(Socket& socket) {
  uint8_t length[frame_length_bytes];
  socket.receive(length);
  std::vector<uint8_t> frame(frame_bytes(length));
  socket.receive(frame);
  return frame;
}

class TcpSource : public engine::KvSource {
 public:
  explicit TcpSource(engine::KvAddress address) : address_(std::move(address)) {}

  void fetch(const TextHash& root, std::span<const KvKey> keys,
             const std::function<std::span<uint8_t>(const KvKey&, uint64_t)>& room,
             const std::function<void(const KvKey&)>& arrived) override {
    Socket socket = Socket::connect(address_.host, address_.port);
    try {
      socket.send(encode_request({address_.request, root, {keys.begin(), keys.end()}}));
      if (const std::string refusal = decode_answer(receive_frame(socket)); !refusal.empty())
        throw Error("it refuses: {}", refusal);
      std::unordered_map<KvKey, bool, engine::HashOfKvKey> wanted;
      for (const KvKey& key : keys) wanted[key] = true;
      const auto comes_another = [&] {
        uint8_t more = 0;
        socket.receive({&more, 1});
        return more != 0;
      };
      while (comes_another()) {
        PartHeader header;
        socket.receive(header);
        const PartFile file = read_part_header(header, declared_bytes(header));
        if (!std::exchange(wanted[file.key], false)) throw Error("a part came that was not asked for");
        const std::span<uint8_t> to = room(file.key, file.bytes);
        if (to.empty()) throw Error("no room for {} bytes", file.bytes);
        socket.receive(to);
        expect_part(file, file.key, to);
        arrived(file.key);
      }
    } catch (const Error& error) {
      throw Error("{}:{}: {}", address_.host, address_.port, error.what());
    }
  }

 private:
  const engine::KvAddress address_;
};

}  // namespace

TransferServer::TransferServer(std::string host, uint16_t port, double lease_seconds)
    : host_(std::move(host)),
      lease_(lease_seconds),
      listener_(Socket::listen(host_, port)),
      port_(listener_.port()),
      engine_(random_name()),
      acceptor_([this] { accept_all(); }) {}

TransferServer::~TransferServer() {
  ending_ = true;
  acceptor_.join();
}

std::string TransferServer::address() const { return fmt::format("{}:{}", host_, port_); }

size_t TransferServer::offers() const {
  const std::lock_guard lock(mutex_);
  return offers_.size();
}

engine::KvAddress TransferServer::offer(KvOffer offer) {
  const std::string name = random_name();
  drop_expired();
  const auto lease = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(lease_));
  const std::lock_guard lock(mutex_);
  offers_[name] = {std::make_shared<const KvOffer>(std::move(offer)), Clock::now() + lease};
  return {.engine = engine_, .host = host_, .request = name, .port = port_};
}

std::shared_ptr<engine::KvSource> TransferServer::source(const engine::KvAddress& address) {
  return std::make_shared<TcpSource>(address);
}

void TransferServer::drop_expired() {
  const std::lock_guard lock(mutex_);
  std::erase_if(offers_, [now = Clock::now()](const auto& entry) { return entry.second.until < now; });
}

void TransferServer::accept_all() {
  constexpr int milliseconds = 100;
  while (!ending_) {
    auto socket = std::make_shared<Socket>(listener_.accept(milliseconds));
    drop_expired();
    if (*socket) workers_.add([this, socket] { serve(*socket); });
  }
}

std::shared_ptr<const KvOffer> TransferServer::find(const TransferRequest& request) const {
  const std::lock_guard lock(mutex_);
  const auto found = offers_.find(request.offer);
  if (found == offers_.end())
    throw Error("expected an offer that was not fetched and is not older than {:g} seconds, found none", lease_);
  if (found->second.offer->root != request.root)
    throw Error(
        "expected the same model, KV format and device on both sides, found others: the KV cache of one means nothing "
        "to the other");
  return found->second.offer;
}

// One that asks for what it should not know, or in another way, gets the reason, and costs nothing else.
void TransferServer::serve(Socket& socket) {
  try {
    TransferRequest request;
    std::shared_ptr<const KvOffer> offer;
    try {
      request = decode_request(receive_frame(socket));
      offer = find(request);
    } catch (const Error& error) {
      return socket.send(encode_answer(error.what()));
    }
    socket.send(encode_answer({}));
    std::unordered_map<KvKey, engine::KvBytes, engine::HashOfKvKey> parts(offer->parts.begin(), offer->parts.end());
    for (const KvKey& key : request.keys) {
      const auto found = parts.find(key);
      if (found == parts.end() || ending_) continue;
      const std::span<const uint8_t> bytes = found->second.span();
      const uint8_t more = 1;
      socket.send({&more, 1});
      socket.send(part_header(key, bytes));
      socket.send(bytes);
    }
    const uint8_t end = 0;
    socket.send({&end, 1});
    const std::lock_guard lock(mutex_);
    offers_.erase(request.offer);
  } catch (const Error&) {  // the other end is gone: the offer stays for its lease
  }
}

}  // namespace heddle::tiers
