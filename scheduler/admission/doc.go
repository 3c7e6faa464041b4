// Package admission makes the admission policies that Berth's scheduler needs in a
// cluster, applies them, and tracks the figures that they read. It decides nothing:
// package kube/request finds what is wrong with a request, and core/user what is
// written on objects; the expressions here do the same, as tests check. It is not a webhook.
//
// Where Berth runs the API server itself (`berth up`), a plugin in that process
// does the same at a fraction of the cost: see package controlplane.
package admission
