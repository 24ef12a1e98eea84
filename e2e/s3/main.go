// An S3 service in memory, for tests: HTTPS, signature version 4 checked, one bucket.
//
//	s3 -listen ADDRESS -certificate FILE -key FILE -bucket NAME
//
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are what it lets in.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "address and port")
	certificate := flag.String("certificate", "", "file with the certificate, PEM")
	key := flag.String("key", "", "file with its key, PEM")
	bucket := flag.String("bucket", "backups", "the bucket that is there")
	flag.Parse()
	backend := s3mem.New()
	if err := backend.CreateBucket(context.Background(), *bucket); err != nil {
		log.Fatal(err)
	}
	pair := map[string]string{os.Getenv("AWS_ACCESS_KEY_ID"): os.Getenv("AWS_SECRET_ACCESS_KEY")}
	service := gofakes3.New(backend, gofakes3.WithV4Auth(pair))
	log.Fatal(http.ListenAndServeTLS(*listen, *certificate, *key, service.Server()))
}
