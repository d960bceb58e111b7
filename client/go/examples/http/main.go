// SPDX-License-Identifier: LGPL-2.1-or-later

// A web server that emits a record for each request. Try it:
//
//	go run ./examples/http &
//	userevctl tail shop_request &
//	curl http://localhost:8080/favicon.ico
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"userevd.dev/userev"
)

type request struct {
	Status uint32
	Ns     int64
	Method string
	Path   string
}

// answer remembers the status that a handler wrote.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func traced(event *userev.Typed[request], next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !event.On() {
			next.ServeHTTP(w, r)
			return
		}
		began, answer := time.Now(), answer{w, http.StatusOK}
		next.ServeHTTP(&answer, r)
		event.Emit(request{uint32(answer.status), time.Since(began).Nanoseconds(), r.Method, r.URL.Path})
	})
}

func main() {
	address := flag.String("listen", "localhost:8080", "")
	flag.Parse()
	conn, err := userev.Open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	requests, err := userev.Declare[request](conn, "shop_request")
	if err != nil {
		log.Print(err) // the server runs the same
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, traced(requests, http.NotFoundHandler())))
}
