// Package profile is where JupyterHub's profiles meet Kubernetes: it reads the
// values files that they are written in, says what is wrong in them, makes a
// Notebook of a profile and a user's choices, and tells which nodes it could go
// to. What a choice gives is decided in core/profile. It runs nothing that a file
// holds: values are data.
//
// Source: kubespawner's make_pod and the singleuser section of
// zero-to-jupyterhub's chart, 4.x.
package profile
