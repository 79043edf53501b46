#include "base/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/clock.h"
#include "base/text.h"

namespace aerie {
namespace {

// What one transfer collects; curl's callbacks get a pointer to it.
struct Transfer {
  HttpAnswer answer;
  size_t cap_bytes = 0;
  bool over_cap = false;
};

size_t on_body(char* data, size_t, size_t size, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  if (transfer.answer.body.size() + size > transfer.cap_bytes) {
    transfer.over_cap = true;
    return CURL_WRITEFUNC_ERROR;
  }
  transfer.answer.body.append(data, size);
  return size;
}

size_t on_header(char* data, size_t, size_t size, void* context) {
  constexpr size_t kMostHeaders = 1000;
  Transfer& transfer = *static_cast<Transfer*>(context);
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) transfer.answer.headers.clear();  // an interim answer (100) came before
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || transfer.answer.headers.size() >= kMostHeaders) return size;
  std::string name(trim(line.substr(0, colon)));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  transfer.answer.headers[name] = trim(line.substr(colon + 1));
  return size;
}

// Hosts that no proxy is asked for: the environment's own list, and this machine.
std::string without_proxy() {
  std::string hosts = "localhost,127.0.0.1,::1";
  for (const char* variable : {"no_proxy", "NO_PROXY"})
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') return hosts + "," + value;
  return hosts;
}

// "http://host:port/path" without user name and password, which must not get into logs.
std::string shown(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  const size_t at = url.substr(host, url.find('/', host) - host).rfind('@');
  return at == std::string::npos ? url : url.substr(0, host) + url.substr(host + at + 1);
}

Error error_of(CURLcode code, const char* detail, const HttpRequest& request) {
  const std::string where = request.method + " " + shown(request.url) + ": ";
  const std::string why = *detail != '\0' ? std::string(trim(detail)) : curl_easy_strerror(code);
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT: return timed_out(where + why);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return unavailable(where + why + "; is the server running, and is the address right?");
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR: return unavailable(where + why);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return invalid(where + why + "; an address looks like http://host:port/path");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_WEIRD_SERVER_REPLY: return invalid(where + why);
    default: return internal(where + why);
  }
}

void start_curl() {
  // Once for the program, before any other use; never undone, because other threads may be inside curl at the end.
  [[maybe_unused]] static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

}  // namespace

struct HttpClient::State {
  CURLM* multi = nullptr;

  State() {
    start_curl();
    multi = curl_multi_init();
  }
  ~State() { curl_multi_cleanup(multi); }

  // Runs the one transfer to its end or until asked to stop.
  Result<CURLcode> drive(CURL* easy, std::stop_token stop) {
    curl_multi_add_handle(multi, easy);
    const std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi); });
    for (;;) {
      int running = 0;
      if (const CURLMcode code = curl_multi_perform(multi, &running); code != CURLM_OK)
        return internal(curl_multi_strerror(code));
      int queued = 0;
      while (const CURLMsg* message = curl_multi_info_read(multi, &queued))
        if (message->msg == CURLMSG_DONE && message->easy_handle == easy) return message->data.result;
      if (stop.stop_requested()) return cancelled("asked to stop");
      // curl shortens the wait to its own deadlines; the second is a bound in case it does not.
      if (const CURLMcode code = curl_multi_poll(multi, nullptr, 0, 1000, nullptr); code != CURLM_OK)
        return internal(curl_multi_strerror(code));
    }
  }
};

HttpClient::HttpClient() : state_(std::make_unique<State>()) {}
HttpClient::~HttpClient() = default;

namespace {

void set_options(CURL* easy, const HttpRequest& request, Transfer& transfer, char* detail, curl_slist* headers) {
  const auto milliseconds = [](double seconds) { return static_cast<long>(std::clamp(seconds * 1000, 1.0, 1e9)); };
  const std::string no_proxy = without_proxy();
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_NOPROXY, no_proxy.c_str());
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  // A name server that does not answer must not hold up the end of a request that has timed out.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   milliseconds(std::min(request.connect_timeout_s, request.timeout_s)));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(request.timeout_s));
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  if (!request.body.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
  } else if (request.method == "POST") {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(0));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
  }
  if (request.method == "HEAD")
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  else
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

}  // namespace

Result<HttpAnswer> HttpClient::send(const HttpRequest& request, std::stop_token stop) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(curl_easy_init(), curl_easy_cleanup);
  if (!easy || state_->multi == nullptr) return internal("curl could not be started");
  // "Expect: 100-continue" would cost a second at servers that do not know it.
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, curl_slist_free_all);

  Transfer transfer;
  transfer.cap_bytes = request.answer_cap_bytes;
  char detail[CURL_ERROR_SIZE] = "";
  set_options(easy.get(), request, transfer, detail, headers.get());
  const double began_s = real_clock().monotonic_s();
  Result<CURLcode> ended = state_->drive(easy.get(), stop);
  curl_multi_remove_handle(state_->multi, easy.get());
  if (!ended) return std::move(ended).error().under(request.method + " " + shown(request.url));
  if (transfer.over_cap)
    return invalid(request.method + " " + shown(request.url) + ": the answer has more than the " +
                   bytes_text(request.answer_cap_bytes) + " that are allowed");
  if (*ended != CURLE_OK) return error_of(*ended, detail, request);

  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  transfer.answer.status = static_cast<int>(status);
  transfer.answer.wall_s = real_clock().monotonic_s() - began_s;
  return std::move(transfer.answer);
}

std::optional<std::string> HttpAnswer::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace aerie
