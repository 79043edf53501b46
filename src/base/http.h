// HTTP requests to the servers that the user named.
//
// An HttpClient keeps its connections open between requests; one thread at a time may use it, several clients may be
// used at once. send() blocks until the answer is whole, the deadline has passed, or the stop token is used, whichever
// is first. Redirects are not followed, and a proxy from the environment is not used for this machine itself.
//
// Any HTTP status is an answer, not a failure. Fails with kUnavailable (refused, unreachable, unknown host, broken
// off), kTimeout, kCancelled, kInvalid (bad URL, answer over the cap, certificate not trusted) and kInternal.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace aerie {

struct HttpRequest {
  std::string method = "GET";
  std::string url;                   // http:// or https://
  std::vector<std::string> headers;  // "Content-Type: application/json"
  std::string body;                  // sent when not empty
  double connect_timeout_s = 5;
  double timeout_s = 60;  // connecting included
  size_t answer_cap_bytes = 256 << 20;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; of repeated ones the last
  std::string body;
  double wall_s = 0;

  bool ok() const { return status >= 200 && status < 300; }
  std::optional<std::string> header(const std::string& lower_case_name) const;
};

class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<HttpAnswer> send(const HttpRequest& request, std::stop_token stop = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace aerie
