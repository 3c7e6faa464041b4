// Package user decides which user an object of a cluster was created for: how that is written on
// it when it is created (Policy), and how it is read (Of, CountedAs). It knows names alone. It
// is not about permissions: what a user may do is the API server's business.
package user
