// Paths of the server: what a route is, and where the table is.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "server/api/api_error.h"
#include "server/service/call.h"

namespace heddle::server {

struct Route {
  std::string_view method;
  std::string_view path;  // one that ends with a slash stands for all paths that begin with it
  void (*handler)(const Call& call);
  struct Rules {
    bool needs_key = true;       // if the server has API keys
    bool needs_model = true;     // 503 while the model is loaded
    bool has_body = false;       // JSON; a long one is read by a worker thread
    bool is_generation = false;  // new work for the engine: 503 while the server drains
    bool has_trace = false;      // takes X-Trace-Level
  } rules;
  ErrorBody error_body = openai_error;  // errors in the form of its protocol
};

std::span<const Route> routes();  // the table, in routes.cpp

struct FoundRoute {
  const Route* route = nullptr;
  std::string allowed;  // the methods that the path has; empty: there is no such path
};
FoundRoute find_route(const HttpRequest& request);

}  // namespace heddle::server
