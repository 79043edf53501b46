#include "base/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/clock.h"

namespace aerie {
namespace {

using testing::HasSubstr;

// A server that answers each request with what a function makes of it; "" = never, "close" = hangs up.
class Server {
 public:
  explicit Server(std::function<std::string(const std::string&)> answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 8);
    socklen_t length = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](std::stop_token stop) { serve(stop); });
  }
  ~Server() {
    thread_.request_stop();
    thread_.join();
    ::close(listener_);
  }
  std::string url(const std::string& path = "/") const { return "http://127.0.0.1:" + std::to_string(port_) + path; }
  int connections() const { return connections_; }

 private:
  static bool readable(int fd) {
    pollfd wait{fd, POLLIN, 0};
    return ::poll(&wait, 1, 20) > 0;
  }
  static bool whole(const std::string& request) {
    const size_t end = request.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const size_t at = request.find("Content-Length: ");
    return at == std::string::npos || request.size() >= end + 4 + std::stoul(request.substr(at + 16));
  }
  void serve(std::stop_token stop) {
    while (!stop.stop_requested()) {
      if (!readable(listener_)) continue;
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      ++connections_;
      converse(fd, stop);
      ::close(fd);
    }
  }
  void converse(int fd, std::stop_token stop) {
    std::string request;
    char block[65536];
    while (!stop.stop_requested()) {
      if (!readable(fd)) continue;
      const ssize_t got = ::read(fd, block, sizeof block);
      if (got <= 0) return;
      request.append(block, static_cast<size_t>(got));
      if (!whole(request)) continue;
      const std::string answer = answer_(request);
      request.clear();
      if (answer == "close") return;
      if (::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
    }
  }

  std::function<std::string(const std::string&)> answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::jthread thread_;
};

std::string ok_answer(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Two:  b \r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

HttpRequest get(const std::string& url) {
  HttpRequest request;
  request.url = url;
  request.timeout_s = 5;
  return request;
}

TEST(Http, HandsBackStatusHeadersAndBody) {
  std::string seen;
  Server server([&](const std::string& request) {
    seen = request;
    return ok_answer("hello");
  });
  HttpClient client;
  const auto answer = client.send(get(server.url("/a?b=c")));
  ASSERT_TRUE(answer.ok()) << answer.error().what;
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(answer->ok());
  EXPECT_EQ(answer->body, "hello");
  EXPECT_EQ(answer->header("content-type"), "text/plain");
  EXPECT_EQ(answer->header("x-two"), "b");
  EXPECT_EQ(answer->header("absent"), std::nullopt);
  EXPECT_THAT(seen, testing::StartsWith("GET /a?b=c HTTP/1.1\r\n"));
}

TEST(Http, SendsABodyOfAMegabyteWithoutAskingFirst) {
  std::string seen;
  Server server([&](const std::string& request) {
    seen = request;
    return ok_answer("");
  });
  HttpRequest request = get(server.url());
  request.method = "POST";
  request.body = std::string(1'000'000, 'x') + "end";
  request.headers = {"Content-Type: application/json", "Authorization: Bearer k"};
  HttpClient client;
  const auto answer = client.send(request);
  ASSERT_TRUE(answer.ok()) << answer.error().what;
  EXPECT_THAT(seen, testing::AllOf(testing::StartsWith("POST / "), HasSubstr("Content-Type: application/json\r\n"),
                                   HasSubstr("Authorization: Bearer k\r\n")));
  EXPECT_TRUE(seen.ends_with("xend"));
  EXPECT_EQ(seen.find("Expect"), std::string::npos);
  EXPECT_LT(answer->wall_s, 0.9);
}

TEST(Http, TakesEveryStatusAsAnAnswer) {
  Server server([](const std::string&) {
    return std::string("HTTP/1.1 503 Busy\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 4\r\n\r\nbusy");
  });
  HttpClient client;
  const auto answer = client.send(get(server.url()));
  ASSERT_TRUE(answer.ok()) << answer.error().what;
  EXPECT_EQ(answer->status, 503);
  EXPECT_FALSE(answer->ok());
  EXPECT_EQ(answer->body, "busy");
}

TEST(Http, KeepsItsConnection) {
  Server server([](const std::string&) { return ok_answer("x"); });
  HttpClient client;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client.send(get(server.url())).ok());
  EXPECT_EQ(server.connections(), 1);
}

TEST(Http, SaysUnavailableWhenNobodyListens) {
  std::string url;
  {
    url = Server([](const std::string&) { return std::string(); }).url();
  }
  HttpClient client;
  const auto answer = client.send(get(url));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_THAT(answer.error().what, testing::AllOf(HasSubstr("GET " + url), HasSubstr("is the server running")));
}

TEST(Http, SaysUnavailableWhenTheServerHangsUp) {
  Server server([](const std::string&) { return std::string("close"); });
  HttpClient client;
  EXPECT_EQ(client.send(get(server.url())).error().code, Code::kUnavailable);
  Server cut([](const std::string&) {
    return std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf");
  });
  HttpRequest request = get(cut.url());
  request.timeout_s = 0.3;
  EXPECT_FALSE(client.send(request).ok());
}

TEST(Http, SaysTimeoutWhenNoAnswerComes) {
  Server server([](const std::string&) { return std::string(); });
  HttpRequest request = get(server.url());
  request.timeout_s = 0.2;
  HttpClient client;
  const Deadline deadline = Deadline::after(2);
  EXPECT_EQ(client.send(request).error().code, Code::kTimeout);
  EXPECT_FALSE(deadline.expired());
}

TEST(Http, StopsAtOnceWhenAsked) {
  Server server([](const std::string&) { return std::string(); });
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop.request_stop();
  });
  HttpClient client;
  const Deadline deadline = Deadline::after(0.9);
  const auto answer = client.send(get(server.url()), stop.get_token());
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kCancelled);
  EXPECT_FALSE(deadline.expired()) << "curl itself would look once a second";
  // The client is of use afterwards.
  Server other([](const std::string&) { return ok_answer("x"); });
  EXPECT_TRUE(client.send(get(other.url())).ok());
}

TEST(Http, RefusesAnAnswerOverTheCap) {
  Server server([](const std::string&) { return ok_answer(std::string(5000, 'x')); });
  HttpRequest request = get(server.url());
  request.answer_cap_bytes = 4999;
  HttpClient client;
  const auto answer = client.send(request);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kInvalid);
  EXPECT_THAT(answer.error().what, HasSubstr("more than the 5.0 kB"));
  request.answer_cap_bytes = 5000;
  EXPECT_TRUE(client.send(request).ok());
}

TEST(Http, RefusesOtherProtocolsAndHidesPasswords) {
  HttpClient client;
  EXPECT_EQ(client.send(get("file:///etc/passwd")).error().code, Code::kInvalid);
  EXPECT_EQ(client.send(get("http://")).error().code, Code::kInvalid);
  const std::string what = client.send(get("http://me:secret@127.0.0.1:1/x@y")).error().what;
  EXPECT_EQ(what.find("secret"), std::string::npos) << what;
  EXPECT_THAT(what, HasSubstr("http://127.0.0.1:1/x@y"));
}

TEST(Http, DoesNotAskAProxyForThisMachine) {
  Server server([](const std::string&) { return ok_answer("direct"); });
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  HttpClient client;
  const auto answer = client.send(get(server.url()));
  ::unsetenv("http_proxy");
  ASSERT_TRUE(answer.ok()) << answer.error().what;
  EXPECT_EQ(answer->body, "direct");
}

}  // namespace
}  // namespace aerie
