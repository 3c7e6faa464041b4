// Package proxy is the data path of services that scale to zero: an HTTP server that
// holds requests while a service has no ready backend, and sends them on, in order,
// once it has. It speaks to a backend the protocol that the client spoke: HTTP/1.1, or
// HTTP/2 without TLS, as gRPC does. It knows nothing of Kubernetes.
package proxy
