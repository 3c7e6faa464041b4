// Package admission makes the ValidatingAdmissionPolicies that Berth's scheduler
// needs in a cluster, and keeps the figures that they read. It builds objects and
// decides nothing: what is wrong with a request is said by package kube/request, and the
// expressions here say the same, which a test holds them to. It is no webhook.
//
// Where Berth runs the API server itself (`berth up`), a plugin in that process
// does the same for a fraction of the price: see package controlplane.
package admission
