// The certificate and key of a server.
#pragma once
#include <boost/asio/ssl/context.hpp>
#include <string>

namespace heddle::server {

// TLS 1.2 and up. Throws an Error that names the file and what is wrong with it.
boost::asio::ssl::context tls_context(const std::string& certificate, const std::string& key);

}  // namespace heddle::server
