import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of `lines` into `counts`, each word once for each time it comes. Arguments: NAME=VALUE of its configuration.
 * It ends by itself if Kafka Streams gives up.
 */
public class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        config.put("application.id", "wordcount");
        config.put("group.protocol", "streams");
        config.put("num.stream.threads", "2");
        config.put("commit.interval.ms", "200");
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("statestore.cache.max.bytes", "0");
        config.put("auto.offset.reset", "earliest");
        config.put("default.key.serde", Serdes.StringSerde.class.getName());
        config.put("default.value.serde", Serdes.StringSerde.class.getName());
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            config.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(60));
            stopped.countDown();
        }));
        streams.start();
        stopped.await();
    }
}
