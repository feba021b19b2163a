package suffrage

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// longestReply is the greatest length of a reply in bytes.
const longestReply = 1 << 20

// endpoint is a node that a client can ask.
type endpoint struct {
	name  string
	base  string
	local bool
	host  string
	http  *http.Client
	token *tokenSource
}

func newEndpoint(text string, token *tokenSource, tlsConfig *tls.Config) (*endpoint, error) {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	// Without a proxy: the requests of a lease are short and must not wait for others.
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        16,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     30 * time.Second,
	}
	found := &endpoint{name: text, token: token}
	found.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if strings.HasPrefix(text, "unix:") {
		path := strings.TrimPrefix(strings.TrimPrefix(text, "unix:"), "//")
		if path == "" || !sharesClock {
			return nil, &ConfigError{"Endpoints", fmt.Sprintf("%q: needs a path, and Linux", text)}
		}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
		found.base, found.host, found.local = "http://localhost", "localhost", true
		return found, nil
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return nil, &ConfigError{"Endpoints", fmt.Sprintf("%q is not like http://host:7480, https://host:7480 or unix:/path", text)}
	}
	found.base = parsed.Scheme + "://" + parsed.Host + strings.TrimRight(parsed.Path, "/")
	found.host = parsed.Hostname()
	return found, nil
}

// exposesToken tells whether a token would leave this machine without encryption.
func (p *endpoint) exposesToken() bool {
	if p.local || strings.HasPrefix(p.base, "https://") || strings.EqualFold(p.host, "localhost") {
		return false
	}
	ip := net.ParseIP(p.host)
	return ip == nil || !ip.IsLoopback()
}

// reply is the reply of a node to a campaign, a renewal or a resignation, or an event of a leadership by connection.
type reply struct {
	Session       string `json:"session"`
	Token         uint64 `json:"token"`
	ValidForMs    int64  `json:"valid_for_ms"`
	QueuePosition int    `json:"queue_position"`
	YourTurn      bool   `json:"your_turn"`
	Error         string `json:"error"`
	Reason        string `json:"reason"`
	Event         string `json:"event"`
	DeadlineNs    int64  `json:"deadline_ns"`
	NowNs         int64  `json:"now_ns"`
}

// open sends a request, and returns the response without its body. Any status but 2xx is a *NodeError.
func (p *endpoint) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content []byte
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = text
	}
	for {
		request, err := http.NewRequestWithContext(ctx, method, p.base+path, bytes.NewReader(content))
		if err != nil {
			return nil, &ConfigError{"Endpoints", err.Error()}
		}
		if body != nil {
			request.Header.Set("Content-Type", "application/json")
		}
		token := ""
		if p.token != nil && !p.local {
			token = p.token.get()
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := p.http.Do(request)
		if err != nil {
			return nil, err
		}
		if response.StatusCode >= 200 && response.StatusCode < 300 {
			return response, nil
		}
		var problem reply
		text, err := io.ReadAll(io.LimitReader(response.Body, longestReply))
		response.Body.Close()
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(text, &problem) != nil || problem.Error == "" {
			problem.Error = http.StatusText(response.StatusCode)
		}
		if response.StatusCode == http.StatusUnauthorized && p.token != nil && p.token.changed(token) {
			continue
		}
		return nil, &NodeError{Endpoint: p.name, Status: response.StatusCode, Reason: problem.Reason, Message: problem.Error}
	}
}

// post sends a request, and returns the status and the reply.
func (p *endpoint) post(ctx context.Context, path string, body any) (int, reply, error) {
	var parsed reply
	response, err := p.open(ctx, http.MethodPost, path, body)
	if err != nil {
		return 0, parsed, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, longestReply))
	if err != nil {
		return 0, parsed, err
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return 0, parsed, fmt.Errorf("%s: the reply is not as expected: %w", p.name, err)
	}
	return response.StatusCode, parsed, nil
}

// electionPath is the path of an action of an election.
func electionPath(name, action string) string {
	return "/elections/" + url.PathEscape(name) + "/" + action
}

// tokenSource reads the bearer token from a file.
type tokenSource struct {
	path string
	mu   sync.Mutex
	text string
}

func newTokenSource(path string) (*tokenSource, error) {
	if path == "" {
		return nil, nil
	}
	source := &tokenSource{path: path}
	if err := source.read(); err != nil {
		return nil, &ConfigError{"TokenFile", err.Error()}
	}
	return source, nil
}

func (t *tokenSource) read() error {
	content, err := os.ReadFile(t.path)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(content))
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return fmt.Errorf("%s: must have one line, the token", t.path)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = text
	return nil
}

func (t *tokenSource) get() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// changed reads the file again, and tells whether the token differs from a token that was refused.
func (t *tokenSource) changed(refused string) bool {
	return t.read() == nil && t.get() != refused
}
