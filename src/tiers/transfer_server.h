// What an engine has computed of prompts, for other processes to fetch over TCP; and fetching it from others.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/workers.h"
#include "engine/kv_store.h"
#include "tiers/socket.h"
#include "tiers/transfer_wire.h"

namespace heddle::tiers {

// An offer is there until it was fetched, or for a lease. Its name is 128 random bits: who does not know it gets
// nothing.
class TransferServer : public engine::KvTransfer {
 public:
  static constexpr double default_lease = 60;  // seconds

  // Throws an Error if it cannot listen there. Port 0: any that is free.
  TransferServer(std::string host, uint16_t port, double lease_seconds = default_lease);
  ~TransferServer() override;

  engine::KvAddress offer(engine::KvOffer offer) override;
  std::shared_ptr<engine::KvSource> source(const engine::KvAddress& address) override;

  std::string address() const;  // "127.0.0.1:8700"
  size_t offers() const;        // that nothing has fetched yet

 private:
  struct Offered {
    std::shared_ptr<const engine::KvOffer> offer;
    Clock::time_point until;
  };
  void accept_all();
  void serve(Socket& socket);
  std::shared_ptr<const engine::KvOffer> find(const TransferRequest& request) const;
  void drop_expired();

  const std::string host_;
  const double lease_;
  const Socket listener_;
  const uint16_t port_;
  const std::string engine_;  // names this process
  mutable std::mutex mutex_;  // guards the offers
  std::map<std::string, Offered> offers_;
  std::atomic<bool> ending_ = false;
  Workers workers_{4};
  std::thread acceptor_;
};

}  // namespace heddle::tiers
