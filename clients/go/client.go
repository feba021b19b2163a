// Package suffrage leads elections of a suffrage cluster.
//
// A client campaigns at a node, leads for as long as it renews its lease there, and resigns. A Leadership has a token,
// which is greater than the token of every leader before, and a context, which is cancelled before the lease ends.
//
//	client, err := suffrage.New(suffrage.Config{})
//	if err != nil { … }
//	err = client.Election("billing", suffrage.Options{}).Run(ctx, func(ctx context.Context, l *suffrage.Leadership) error {
//		return work(ctx, l.Token())
//	})
//
// Safety depends on these rules. The validity of a reply counts from the moment just before its request was sent. At the
// end of the validity the leadership is over, whatever replies come later. Resign ends the leadership first, and tells
// the node then.
package suffrage

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Moment is a moment on the clock of this machine, in nanoseconds. Now reads the clock.
type Moment int64

// DefaultSocket is the Unix socket of a node on this machine.
const DefaultSocket = "/run/suffrage/suffrage.sock"

// defaultURL is the endpoint if there is no other.
const defaultURL = "http://127.0.0.1:7480"

// Config is the configuration of a client. The zero value reads the environment.
type Config struct {
	// Endpoints are the nodes, which are tried in order: "unix:/run/suffrage/suffrage.sock", "http://127.0.0.1:7480" or
	// "https://node-1:7480". Default: the socket of this machine if it exists, then those of the environment variable
	// SUFFRAGE_NODE, with commas between several; if there are none, http://127.0.0.1:7480.
	Endpoints []string
	// TokenFile is the file with the bearer token. Default: SUFFRAGE_TOKEN_FILE. It is read again if a node refuses the
	// token.
	TokenFile string
	// CAFile has the certificates of trusted authorities for https, in PEM. Default: SUFFRAGE_CA, otherwise the
	// authorities of the system.
	CAFile string
	// Plain allows sending the token to another machine with http://, because a proxy or tunnel encrypts.
	Plain bool
	// OnError is told of errors after which the client tries again. It may be nil. Several goroutines may call it at once.
	OnError func(error)
}

// Client is a client of a cluster. It can lead many elections, each at most once at a time. It may be used by several
// goroutines at once.
type Client struct {
	endpoints []*endpoint
	onError   func(error)

	mu sync.Mutex
	// inUse has the elections that this client leads or waits to lead.
	inUse map[string]bool
}

// New returns a client. It does not connect.
func New(config Config) (*Client, error) {
	endpoints := config.Endpoints
	if len(endpoints) == 0 {
		endpoints = defaultEndpoints(DefaultSocket)
	}
	token, err := newTokenSource(orEnvironment(config.TokenFile, "SUFFRAGE_TOKEN_FILE"))
	if err != nil {
		return nil, err
	}
	authorities, err := authorities(orEnvironment(config.CAFile, "SUFFRAGE_CA"))
	if err != nil {
		return nil, err
	}
	client := &Client{onError: config.OnError, inUse: make(map[string]bool)}
	for _, text := range endpoints {
		endpoint, err := newEndpoint(text, token, &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12})
		if err != nil {
			return nil, err
		}
		if token != nil && !config.Plain && endpoint.exposesToken() {
			reason := fmt.Sprintf("%s would receive the token without encryption: use https://, or Plain if a proxy or tunnel encrypts", text)
			return nil, &ConfigError{"Endpoints", reason}
		}
		client.endpoints = append(client.endpoints, endpoint)
	}
	return client, nil
}

func orEnvironment(value, variable string) string {
	if value != "" {
		return value
	}
	return os.Getenv(variable)
}

// defaultEndpoints are the socket of this machine if there is one, and the nodes of the environment.
func defaultEndpoints(socket string) []string {
	var endpoints []string
	if found, err := os.Stat(socket); err == nil && found.Mode()&os.ModeSocket != 0 && sharesClock {
		endpoints = append(endpoints, "unix:"+socket)
	}
	for _, listed := range strings.Split(os.Getenv("SUFFRAGE_NODE"), ",") {
		if listed = strings.TrimSpace(listed); listed != "" {
			endpoints = append(endpoints, listed)
		}
	}
	if len(endpoints) == 0 {
		return []string{defaultURL}
	}
	return endpoints
}

func authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &ConfigError{"CAFile", err.Error()}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, &ConfigError{"CAFile", path + " has no certificate in PEM"}
	}
	return pool, nil
}

// Close closes idle connections. It does not end leaderships.
func (c *Client) Close() {
	for _, endpoint := range c.endpoints {
		endpoint.http.CloseIdleConnections()
	}
}

// Options are the options of an election. The zero value is usable.
type Options struct {
	// TTL is the length of a lease. Default: the ttl of the node.
	TTL time.Duration
	// StopMargin is the time before the deadline at which the context of a leadership is cancelled, so that the work can
	// stop in time. Default: a tenth of the lease. It must be less than half of TTL.
	StopMargin time.Duration
	// Rank is the rank of the candidate. A greater rank is better.
	Rank int64
	// Value is what this client says about itself while it leads, such as its address: up to 4096 bytes of UTF-8.
	Value string
}

// Election is an election of a client.
type Election struct {
	client  *Client
	name    string
	options Options
}

// Election returns the election of this name. It takes part when Lead is called.
func (c *Client) Election(name string, options Options) *Election {
	return &Election{client: c, name: name, options: options}
}

// Name is the name of the election.
func (e *Election) Name() string {
	return e.name
}

func (e *Election) check() error {
	options := e.options
	switch {
	case e.name == "":
		return &ConfigError{"name", "must not be empty"}
	case options.TTL < 0 || (options.TTL > 0 && options.TTL < time.Millisecond):
		return &ConfigError{"TTL", fmt.Sprintf("must be at least 1ms, not %v", options.TTL)}
	case options.StopMargin < 0 || (options.TTL > 0 && options.StopMargin >= options.TTL/2):
		return &ConfigError{"StopMargin", fmt.Sprintf("must be less than half of TTL (%v), not %v", options.TTL, options.StopMargin)}
	}
	return nil
}

// acquire marks the election as in use by this client.
func (c *Client) acquire(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inUse[name] {
		return false
	}
	c.inUse[name] = true
	return true
}

func (c *Client) release(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inUse, name)
}

func (c *Client) report(err error) {
	if c.onError != nil && err != nil {
		c.onError(err)
	}
}
